"""I-VNE (Kim et al., 2023): a large von Neumann entropy of the second moment, and views that agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from kvicreg.losses.spectral import SpectralLoss
from kvicreg.options import Options, option

__all__ = ["VNELoss", "VNEOptions", "VNETerms"]


class VNETerms(NamedTuple):
    """`total` is weighted, the terms are not."""

    total: Tensor
    cosine: Tensor
    entropy: Tensor


@dataclass(frozen=True, kw_only=True)
class VNEOptions(Options):
    """Settings of `VNELoss` beside its kernel and approximation."""

    cosine_weight: float = option(1.0, "Weight of the cosine of two views of an image.", at_least=0)
    entropy_weight: float = option(1.0, "Weight of the von Neumann entropy.", at_least=0)


class VNELoss(SpectralLoss):
    """``-cosine_weight * mean_i cos(phi(z_i), phi(z'_i)) - entropy_weight * mean_v S(rho_v)``.

    ``S(rho) = -sum_j lambda_j log lambda_j`` of the eigenvalues of the second moment of a view at unit length, the
    logarithm of the effective rank around zero; with more than two views the mean over their pairs.

    Example:
        >>> VNELoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    Options = VNEOptions

    def of_views(self, views: Sequence[Tensor]) -> VNETerms:
        """The terms of views that were checked."""
        both = self.at_unit_length(views)
        entropy = both.operator.effective_rank().log().mean()
        cosine = both.mean(both.cosines())
        total = -self.options.cosine_weight * cosine - self.options.entropy_weight * entropy
        return VNETerms(total, cosine, entropy)
