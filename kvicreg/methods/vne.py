"""I-VNE: the von Neumann entropy of the views' second moment is made large."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import VNELoss, VNEOptions
from kvicreg.methods.base import ManyViews
from kvicreg.methods.kernel_method import LinearMethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["VNE"]


class VNE(Siamese):
    """VNELoss of the embeddings of two or more views.

    Example:
        >>> method = VNE(SmallCNN(), Projector(512), VNELoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['cosine', 'entropy']
    """

    Loss = VNELoss


@dataclass(frozen=True, kw_only=True)
class VNEMethodOptions(LinearMethodOptions, name="i-vne"):
    """Settings of I-VNE."""

    method = VNE
    loss: VNEOptions = field(default_factory=VNEOptions)
    many_views: ManyViews = field(default_factory=ManyViews)
