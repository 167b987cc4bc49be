"""SimCLR: the other view of an image is picked out among all other views of the batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import NTXentLoss, NTXentOptions
from kvicreg.methods.base import MethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["SimCLR"]


class SimCLR(Siamese):
    """NTXentLoss of the embeddings of two views.

    Example:
        >>> method = SimCLR(SmallCNN(), Projector(512), NTXentLoss(temperature=0.2))
        >>> method(torch.randn(2, 8, 1, 28, 28), step=0).embeddings.shape
        torch.Size([8, 1024])
    """

    Loss = NTXentLoss


@dataclass(frozen=True, kw_only=True)
class SimCLROptions(MethodOptions, name="simclr"):
    """Settings of SimCLR."""

    method = SimCLR
    loss: NTXentOptions = field(default_factory=NTXentOptions)
