"""The coding rate (MCR2, Yu et al., 2020; EMP-SSL, Tong et al., 2023): the volume that embeddings take up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from kvicreg.kernels.distances import safe_sqrt
from kvicreg.losses.spectral import SpectralLoss
from kvicreg.options import Options, option

__all__ = ["CodingRateLoss", "CodingRateOptions", "CodingRateTerms"]


class CodingRateTerms(NamedTuple):
    """`total` is weighted, the terms are not."""

    total: Tensor
    similarity: Tensor
    coding_rate: Tensor


@dataclass(frozen=True, kw_only=True)
class CodingRateOptions(Options):
    """Settings of `CodingRateLoss` beside its kernel and approximation."""

    similarity_weight: float = option(200.0, "Weight of the views' cosine with their mean.", at_least=0)
    distortion: float = option(0.2, "The squared distortion that a code may have.", above=0)


class CodingRateLoss(SpectralLoss):
    """``-mean_v R(rho_v) - similarity_weight * mean_i mean_v cos(phi(z_i^v), mean of its views)``.

    ``R(rho) = 1/2 log det(I + d / distortion * rho)`` of the second moment of a view at unit length in d directions:
    the bits, but for a factor, that a code of its points needs (EMP-SSL's loss, of any number of views).

    Example:
        >>> CodingRateLoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    Options = CodingRateOptions

    def of_views(self, views: Sequence[Tensor]) -> CodingRateTerms:
        """The terms of views that were checked."""
        both, count = self.at_unit_length(views), len(views)
        scale = self.directions(views, both.operator) / self.options.distortion
        rate = (both.operator.eigenvalues() * scale).log1p().sum(-1).mean() / 2
        # the mean of unit vectors is as long as their mean cosine with it
        similarity = both.mean(safe_sqrt((1 + (count - 1) * both.cosines()) / count))
        return CodingRateTerms(-rate - self.options.similarity_weight * similarity, similarity, rate)
