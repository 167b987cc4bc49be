"""CorInfoMax: the log-determinant of the views' covariance is made large."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import CorInfoMaxLoss, CorInfoMaxOptions
from kvicreg.methods.base import ManyViews
from kvicreg.methods.kernel_method import LinearMethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["CorInfoMax"]


class CorInfoMax(Siamese):
    """CorInfoMaxLoss of the embeddings of two or more views.

    Example:
        >>> method = CorInfoMax(SmallCNN(), Projector(512), CorInfoMaxLoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['invariance', 'log_det']
    """

    Loss = CorInfoMaxLoss


@dataclass(frozen=True, kw_only=True)
class CorInfoMaxMethodOptions(LinearMethodOptions, name="corinfomax"):
    """Settings of CorInfoMax."""

    method = CorInfoMax
    loss: CorInfoMaxOptions = field(default_factory=CorInfoMaxOptions)
    many_views: ManyViews = field(default_factory=ManyViews)
