"""Self-supervised methods: one file each, an encoder with its heads and its loss."""

from kvicreg.methods.base import Method, StepResult
from kvicreg.methods.kernel_vicreg import KernelVICReg
from kvicreg.methods.vicreg import VICReg

METHODS: dict[str, type[Method]] = {"kernel-vicreg": KernelVICReg, "vicreg": VICReg}

__all__ = ["METHODS", "KernelVICReg", "Method", "StepResult", "VICReg"]
