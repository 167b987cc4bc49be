"""LeJEPA: views predict their mean, and random slices of the embeddings are tested for a Gaussian."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvicreg.losses import LeJEPALoss, LeJEPAOptions
from kvicreg.methods.base import ManyViews, MethodOptions
from kvicreg.methods.siamese import Siamese

__all__ = ["LeJEPA"]


class LeJEPA(Siamese):
    """LeJEPALoss of the embeddings of two or more views.

    Example:
        >>> method = LeJEPA(SmallCNN(), Projector(512), LeJEPALoss())
        >>> sorted(method(torch.randn(2, 8, 1, 28, 28), step=0).terms)
        ['prediction', 'sigreg']
    """

    Loss = LeJEPALoss


@dataclass(frozen=True, kw_only=True)
class LeJEPAMethodOptions(MethodOptions, name="lejepa"):
    """Settings of LeJEPA."""

    method = LeJEPA
    loss: LeJEPAOptions = field(default_factory=LeJEPAOptions)
    many_views: ManyViews = field(default_factory=ManyViews)

    def loss_arguments(self, seed: int) -> dict[str, Any]:
        return {**super().loss_arguments(seed), "seed": seed}
