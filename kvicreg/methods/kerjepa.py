"""KerJEPA: views predict their mean; a kernel discrepancy from a Gaussian is made small."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvicreg.losses import KerJEPALoss, KerJEPAOptions
from kvicreg.methods.base import ManyViews, MethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["KerJEPA"]


class KerJEPA(Siamese):
    """KerJEPALoss of the embeddings of two or more views.

    Example:
        >>> method = KerJEPA(SmallCNN(), Projector(512), KerJEPALoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['discrepancy', 'prediction']
    """

    Loss = KerJEPALoss


@dataclass(frozen=True, kw_only=True)
class KerJEPAMethodOptions(MethodOptions, name="kerjepa"):
    """Settings of KerJEPA."""

    method = KerJEPA
    loss: KerJEPAOptions = field(default_factory=KerJEPAOptions)
    many_views: ManyViews = field(default_factory=ManyViews)
