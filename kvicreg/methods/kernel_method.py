"""What all methods with a kernel share: the choice of the kernel and of how its operator is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kvicreg.kernels.options import KERNELS, KernelOptions
from kvicreg.methods.base import MethodOptions
from kvicreg.operators.approximation import APPROXIMATIONS, ApproximationOptions
from kvicreg.options import choice

__all__ = ["KernelMethodOptions", "LinearMethodOptions"]


@dataclass(frozen=True, kw_only=True)
class KernelMethodOptions(MethodOptions):
    """Settings of a method whose loss lives in a kernel's feature space."""

    kernel: KernelOptions = choice("rbf", KERNELS, "Kernel by name, or a mixture: rbf+linear, 0.3*rbf+0.7*linear.")
    approximation: ApproximationOptions = choice("exact", APPROXIMATIONS, "How the kernel's operator is computed.")

    learns_mixtures: ClassVar[bool] = False
    """Whether its loss lets the shares of a mixture follow something else than the loss itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.kernel, "learn_mixture", False) and not self.learns_mixtures:
            raise ValueError(f"learn_mixture is for kernel-vicreg; under {self.name} the shares would follow its loss")

    def loss_arguments(self, seed: int) -> dict[str, Any]:
        where = {"kernel": self.kernel.build(), "approximation": self.approximation.build(seed)}
        return {**where, **super().loss_arguments(seed)}

    @property
    def label(self) -> str:
        return f"{self.name}-{self.kernel.choice.replace('*', '')}"

    def describe(self) -> str:
        return f"{self.name} with the {self.kernel.choice} kernel"


@dataclass(frozen=True, kw_only=True)
class LinearMethodOptions(KernelMethodOptions):
    """Settings of a method that was published without a kernel, which is the linear one."""

    kernel: KernelOptions = choice("linear", KERNELS, "Kernel by name, or a mixture; linear as published.")
