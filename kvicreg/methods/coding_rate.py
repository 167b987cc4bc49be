"""The total coding rate, as in EMP-SSL: the volume that the views take up is made large."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import CodingRateLoss, CodingRateOptions
from kvicreg.methods.base import ManyViews
from kvicreg.methods.kernel_method import LinearMethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["CodingRate"]


class CodingRate(Siamese):
    """CodingRateLoss of the embeddings of two or more views.

    Example:
        >>> method = CodingRate(SmallCNN(), Projector(512), CodingRateLoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['coding_rate', 'similarity']
    """

    Loss = CodingRateLoss


@dataclass(frozen=True, kw_only=True)
class CodingRateMethodOptions(LinearMethodOptions, name="coding-rate"):
    """Settings of the coding rate."""

    method = CodingRate
    loss: CodingRateOptions = field(default_factory=CodingRateOptions)
    many_views: ManyViews = field(default_factory=ManyViews)
