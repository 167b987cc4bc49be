"""Barlow Twins (Zbontar et al., 2021): the cross-correlation matrix of the views is driven to the identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.terms import TermsLoss, stack_views
from kvicreg.operators.build import check_samples
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = [
    "BarlowTerms",
    "BarlowTwinsLoss",
    "BarlowTwinsOptions",
    "CrossMoments",
    "barlow_twins_terms",
    "coordinate_terms",
]


class BarlowTerms(NamedTuple):
    """`total` is weighted, the two terms are not."""

    total: Tensor
    invariance: Tensor
    redundancy: Tensor


@dataclass(frozen=True, kw_only=True)
class BarlowTwinsOptions(Options):
    """Settings of `BarlowTwinsLoss`."""

    redundancy_weight: float = option(0.0051, "Weight of the redundancy term.", at_least=0)
    eps: float = option(1e-5, "Added to the variance of each coordinate.", at_least=0)


class BarlowTwinsLoss(TermsLoss):
    """``sum_j (1 - C_jj)^2 + redundancy_weight * sum_{j != k} C_jk^2`` (Barlow Twins; Zbontar et al., 2021).

    C is the cross-correlation matrix of the views: ``C_jk = mean_i u_ij u'_ik`` of embeddings whose coordinates are
    standardised over the batch, ``u_ij = (z_ij - mean_j) / sqrt(var_j + eps)``, with the variance over b.

    Args:
        redundancy_weight: that of the second sum, 0.0051 as published.
        eps: added to variances.
        gather: under `torch.distributed`, the loss of the global batch.

    Example:
        >>> BarlowTwinsLoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self,
        redundancy_weight: float = BarlowTwinsOptions.redundancy_weight,
        eps: float = BarlowTwinsOptions.eps,
        gather: bool = True,
    ) -> None:
        super().__init__()
        options = BarlowTwinsOptions(redundancy_weight=float(redundancy_weight), eps=float(eps))
        self.redundancy_weight, self.eps, self.gather = options.redundancy_weight, options.eps, gather

    def terms(self, z1: Tensor, z2: Tensor) -> BarlowTerms:
        """The weighted total, and the two sums without the weight."""
        return barlow_twins_terms(z1, z2, weight=self.redundancy_weight, eps=self.eps, gather=self.gather)

    def extra_repr(self) -> str:
        return f"redundancy_weight={self.redundancy_weight:g}, eps={self.eps:g}, gather={self.gather}"


def barlow_twins_terms(
    z1: Tensor,
    z2: Tensor,
    *,
    weight: float = BarlowTwinsOptions.redundancy_weight,
    eps: float = BarlowTwinsOptions.eps,
    gather: bool = True,
) -> BarlowTerms:
    """`BarlowTwinsLoss` as a pure function of two views ``(b, p)``.

    Example:
        >>> barlow_twins_terms(torch.randn(64, 8), torch.randn(64, 8)).total.shape
        torch.Size([])
    """
    z = stack_views((z1, z2))
    with full_precision(z):
        return coordinate_terms(CrossMoments(z, Shard.of(z, gather=gather)), weight, eps)


def coordinate_terms(moments: CrossMoments, weight: float, eps: float) -> BarlowTerms:
    """The terms of Barlow Twins on the coordinates of features."""
    inverse = (moments.variances() + eps).rsqrt()
    diagonal = moments.products() * inverse[0] * inverse[1]  # C_jj
    invariance = (1 - diagonal).square().sum()
    redundancy = (moments.squared_norm(inverse) - diagonal.square().sum()).clamp_min(0)
    return BarlowTerms(invariance + weight * redundancy, invariance, redundancy)


class CrossMoments:
    """Second moments of features ``(2, b, D)`` about their means over the global batch.

    Every sum over the processes is of a function of this process's rows alone, never of another such sum: the backward
    passes of sums within sums would miss how the inner one depends on the other processes' rows. Where D is no smaller
    than the batch everything is gathered instead.
    """

    def __init__(self, features: Tensor, shard: Shard) -> None:
        check_samples(shard)
        self.wide = features.shape[-1] >= shard.total
        if self.wide:
            features = shard.gather(features)
            shard = Shard.of(features, gather=False)
        # measured from near the mean, where products do not cancel; a shift changes no moment, so it has no gradient
        start = shard.sum(features.detach().sum(1, keepdim=True)) / shard.total
        self.x, self.shard = features - start, shard
        self.mean = self._average(self.x.sum(1))  # (2, D)

    def _average(self, local: Tensor) -> Tensor:
        return self.shard.sum(local) / self.shard.total

    def variances(self) -> Tensor:
        """The variance of each coordinate, ``(2, D)``."""
        return self._average(self.x.square().sum(1)) - self.mean.square()

    def products(self) -> Tensor:
        """The covariance of each coordinate with its twin, ``(D,)``."""
        return self._average((self.x[0] * self.x[1]).sum(0)) - self.mean[0] * self.mean[1]

    def squared_norm(self, scale: Tensor | None = None) -> Tensor:
        """``sum_jk C_jk^2`` of the cross-covariance matrix, its coordinates scaled by `scale` ``(2, D)`` if given."""
        if self.wide:
            u = self.x - self.mean.unsqueeze(1)
            u = u if scale is None else u * scale.unsqueeze(1)
            grams = u @ u.mT
            return (grams[0] * grams[1]).sum() / self.shard.total**2
        matrix = self._average(self.x[0].mT @ self.x[1]) - self.mean[0].unsqueeze(1) * self.mean[1]
        matrix = matrix if scale is None else matrix * scale[0].unsqueeze(1) * scale[1]
        return matrix.square().sum()
