"""Barlow Twins: the cross-correlation matrix of the two views is driven to the identity."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import BarlowTwinsLoss, BarlowTwinsOptions
from kvicreg.methods.base import MethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["BarlowTwins"]


class BarlowTwins(Siamese):
    """BarlowTwinsLoss of the embeddings of two views.

    Example:
        >>> method = BarlowTwins(SmallCNN(), Projector(512), BarlowTwinsLoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['invariance', 'redundancy']
    """

    Loss = BarlowTwinsLoss


@dataclass(frozen=True, kw_only=True)
class BarlowTwinsMethodOptions(MethodOptions, name="barlow-twins"):
    """Settings of Barlow Twins."""

    method = BarlowTwins
    loss: BarlowTwinsOptions = field(default_factory=BarlowTwinsOptions)
