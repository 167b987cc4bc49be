"""Objectives for self-supervised learning: pure functions and the modules that hold their settings."""

from kvicreg.losses.kernel_vicreg import KernelVICRegLoss, kernel_vicreg_terms
from kvicreg.losses.terms import LossTerms
from kvicreg.losses.vicreg import VICRegLoss, vicreg_terms

__all__ = ["KernelVICRegLoss", "LossTerms", "VICRegLoss", "kernel_vicreg_terms", "vicreg_terms"]
