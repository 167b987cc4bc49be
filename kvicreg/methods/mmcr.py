"""MMCR: the nuclear norm of the images' mean embeddings is made large."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import MMCRLoss
from kvicreg.methods.base import ManyViews
from kvicreg.methods.kernel_method import LinearMethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["MMCR"]


class MMCR(Siamese):
    """MMCRLoss of the embeddings of two or more views.

    Example:
        >>> method = MMCR(SmallCNN(), Projector(512), MMCRLoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['nuclear_norm']
    """

    Loss = MMCRLoss


@dataclass(frozen=True, kw_only=True)
class MMCRMethodOptions(LinearMethodOptions, name="mmcr"):
    """Settings of MMCR."""

    method = MMCR
    many_views: ManyViews = field(default_factory=ManyViews)
