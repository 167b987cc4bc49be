"""VICReg: the same three terms on the embeddings themselves; the baseline Kernel VICReg is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kvicreg.losses import VICRegLoss, VICRegOptions
from kvicreg.methods.base import ManyViews, MethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["VICReg"]


class VICReg(Siamese):
    """VICRegLoss of the embeddings of two or more views.

    Example:
        >>> method = VICReg(SmallCNN(), Projector(512), VICRegLoss("paper"))
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['covariance', 'invariance', 'variance']
    """

    Loss = VICRegLoss


@dataclass(frozen=True, kw_only=True)
class VICRegMethodOptions(MethodOptions, name="vicreg"):
    """Settings of VICReg."""

    method = VICReg
    loss: VICRegOptions = field(default_factory=VICRegOptions)
    many_views: ManyViews = field(default_factory=ManyViews)

    def resolved(self, classes: int | None = None) -> VICRegMethodOptions:
        return replace(self, loss=self.loss.resolved())
