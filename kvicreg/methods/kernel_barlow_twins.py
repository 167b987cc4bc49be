"""Kernel Barlow Twins: the cross-covariance operator of the two views is driven to the identity."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kvicreg.losses import KernelBarlowTwinsLoss, KernelBarlowTwinsOptions
from kvicreg.methods.kernel_method import KernelMethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["KernelBarlowTwins"]


class KernelBarlowTwins(Siamese):
    """KernelBarlowTwinsLoss of the embeddings of two views.

    Example:
        >>> method = KernelBarlowTwins(SmallCNN(), Projector(512), KernelBarlowTwinsLoss("rbf"))
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['invariance', 'redundancy']
    """

    Loss = KernelBarlowTwinsLoss


@dataclass(frozen=True, kw_only=True)
class KernelBarlowTwinsMethodOptions(KernelMethodOptions, name="kernel-barlow-twins"):
    """Settings of Kernel Barlow Twins."""

    method = KernelBarlowTwins
    loss: KernelBarlowTwinsOptions = field(default_factory=KernelBarlowTwinsOptions)

    def resolved(self, classes: int | None = None) -> KernelBarlowTwinsMethodOptions:
        return replace(self, loss=replace(self.loss, redundancy_weight=self.loss.weight))
