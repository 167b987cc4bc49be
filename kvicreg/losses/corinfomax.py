"""CorInfoMax (Ozsoy et al., 2022): a large log-determinant of the covariance, and views that agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from kvicreg.losses.spectral import SpectralLoss
from kvicreg.options import Options, option

__all__ = ["CorInfoMaxLoss", "CorInfoMaxOptions", "CorInfoMaxTerms"]


class CorInfoMaxTerms(NamedTuple):
    """`total` is weighted, the terms are not."""

    total: Tensor
    invariance: Tensor
    log_det: Tensor


@dataclass(frozen=True, kw_only=True)
class CorInfoMaxOptions(Options):
    """Settings of `CorInfoMaxLoss` beside its kernel and approximation."""

    attraction: float = option(500.0, "Weight of the mean squared difference of two views.", at_least=0)
    eps: float = option(1e-8, "Added to the eigenvalues of the covariance.", above=0)


class CorInfoMaxLoss(SpectralLoss):
    """``attraction * mean (z - z')^2 - 1/p sum_v log det(C_v + eps I)`` of embeddings at unit length.

    ``C_v`` is the covariance of a view over the batch; the published code adds a hundredth of that of the batches
    before. In the feature space of a kernel p is its dimension, or the number of samples where that is infinite. With
    more than two views it is the mean of the loss over their pairs.

    Example:
        >>> CorInfoMaxLoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    Options = CorInfoMaxOptions

    def of_views(self, views: Sequence[Tensor]) -> CorInfoMaxTerms:
        """The terms of views that were checked."""
        both = self.at_unit_length(views, centred=True)
        eps, width = self.options.eps, self.directions(views, both.operator)
        bound = both.operator.rank_bound
        values = both.operator.eigenvalues()[..., :bound]
        log_det = 2 * ((values + eps).log().sum(-1).mean() + (width - bound) * math.log(eps)) / width
        invariance = 2 * (1 - both.mean(both.cosines())) / width
        return CorInfoMaxTerms(self.options.attraction * invariance - log_det, invariance, log_det)
