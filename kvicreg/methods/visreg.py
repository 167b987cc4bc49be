"""VISReg: views predict their mean; deviations are 1, and random slices shaped like a Gaussian."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvicreg.losses import VISRegLoss, VISRegOptions
from kvicreg.methods.base import ManyViews, MethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["VISReg"]


class VISReg(Siamese):
    """VISRegLoss of the embeddings of two or more views.

    Example:
        >>> method = VISReg(SmallCNN(), Projector(512), VISRegLoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['prediction', 'scale', 'shape']
    """

    Loss = VISRegLoss


@dataclass(frozen=True, kw_only=True)
class VISRegMethodOptions(MethodOptions, name="visreg"):
    """Settings of VISReg."""

    method = VISReg
    loss: VISRegOptions = field(default_factory=VISRegOptions)
    many_views: ManyViews = field(default_factory=ManyViews)

    def loss_arguments(self, seed: int) -> dict[str, Any]:
        return {**super().loss_arguments(seed), "seed": seed}
