"""Kernel BYOL: BYOL with the distance of a kernel's feature space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvicreg.losses import KernelBYOLLoss
from kvicreg.methods.byol import BYOL, PredictorOptions
from kvicreg.methods.kernel_method import KernelMethodOptions

__all__ = ["KernelBYOL"]


class KernelBYOL(BYOL):
    """BYOL whose predictions and targets are compared in a kernel's feature space.

    Example:
        >>> method = KernelBYOL(SmallCNN(), Projector(512), KernelBYOLLoss("rbf"))
        >>> method(torch.randn(2, 8, 1, 28, 28), step=0).embeddings.shape
        torch.Size([8, 1024])
    """

    Loss = KernelBYOLLoss


@dataclass(frozen=True, kw_only=True)
class KernelBYOLOptions(KernelMethodOptions, name="kernel-byol"):
    """Settings of Kernel BYOL."""

    method = KernelBYOL
    predictor: PredictorOptions = field(default_factory=PredictorOptions)

    def heads(self, norm: str) -> dict[str, Any]:
        return {"norm": norm, **self.predictor.flat()}
