"""W-MSE: views agree after each has been whitened; the projector must be narrower than the batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import WMSELoss, WMSEOptions
from kvicreg.methods.base import ManyViews, MethodOptions
from kvicreg.methods.siamese import Siamese
from kvicreg.models.projector import output_dim

__all__ = ["WMSE"]


class WMSE(Siamese):
    """WMSELoss of the embeddings of two or more views.

    Example:
        >>> method = WMSE(SmallCNN(), Projector(512, 16, 4), WMSELoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['cosine']
    """

    Loss = WMSELoss

    @property
    def least_batch(self) -> int:
        return output_dim(self.projector) + 1


@dataclass(frozen=True, kw_only=True)
class WMSEMethodOptions(MethodOptions, name="w-mse"):
    """Settings of W-MSE."""

    method = WMSE
    loss: WMSEOptions = field(default_factory=WMSEOptions)
    many_views: ManyViews = field(default_factory=ManyViews)
