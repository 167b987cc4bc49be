"""Kernel SimCLR: SimCLR with similarities of a kernel's feature space."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import KernelSimCLRLoss, KernelSimCLROptions
from kvicreg.methods.kernel_method import KernelMethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["KernelSimCLR"]


class KernelSimCLR(Siamese):
    """KernelSimCLRLoss of the embeddings of two views.

    Example:
        >>> method = KernelSimCLR(SmallCNN(), Projector(512), KernelSimCLRLoss("laplacian"))
        >>> method(torch.randn(2, 8, 1, 28, 28), step=0).embeddings.shape
        torch.Size([8, 1024])
    """

    Loss = KernelSimCLRLoss


@dataclass(frozen=True, kw_only=True)
class KernelSimCLRMethodOptions(KernelMethodOptions, name="kernel-simclr"):
    """Settings of Kernel SimCLR."""

    method = KernelSimCLR
    loss: KernelSimCLROptions = field(default_factory=KernelSimCLROptions)
