"""From embeddings to the covariance operator and the distance of the views in feature space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from kvicreg import kernels
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.composite import Product, Sum
from kvicreg.kernels.linear import Linear
from kvicreg.kernels.pairs import MatchedPairs, ViewPairs, at_least_float32, full_precision
from kvicreg.operators.approximation import Approximation
from kvicreg.operators.bandwidth import resolved
from kvicreg.operators.covariance import CovarianceOperator
from kvicreg.operators.shard import Shard

__all__ = ["check_samples", "covariance_operator", "sized", "view_operators"]


def covariance_operator(
    z: Tensor, kernel: str | Kernel = "rbf", approximation: Approximation | None = None, gather: bool = False
) -> CovarianceOperator:
    """The covariance operator of a batch of embeddings ``(b, p)`` under a kernel.

    Leading dimensions are views: ``(v, b, p)`` gives v operators at once that share one bandwidth and one feature map.

    Example:
        >>> covariance_operator(torch.randn(32, 8), "linear").eigenvalues().shape
        torch.Size([8])
    """
    z = at_least_float32(z, "z")
    if z.dim() not in (2, 3) or z.shape[-2] < 2:
        raise ValueError(f"z must have shape (b, p) or (views, b, p) with b >= 2, got {tuple(z.shape)}")
    with full_precision(z):
        views = z.unbind() if z.dim() == 3 else (z,)
        operator = _embed(views, kernels.get(kernel), approximation, Shard.of(z, gather=gather)).operator
        return operator if z.dim() == 3 else operator.of_view(0)


def view_operators(
    views: Sequence[Tensor],
    kernel: Kernel,
    approximation: Approximation | None = None,
    gather: bool = True,
    unit: bool = False,
) -> tuple[CovarianceOperator, Tensor]:
    """The operators of all views ``(b, p)``, and the mean squared distance of the views in feature space.

    The distance is ``mean_i |phi(x_i) - phi(x'_i)|^2`` over the pairs of views; only paired evaluations are made for
    it, never a b x b cross Gram matrix. With `unit` the kernel is divided by its value at unit-variance input.
    """
    shard = Shard.of(views[0], gather=gather)
    check_samples(shard)
    kernel = kernel.unit(views[0].shape[-1]) if unit else kernel
    embedded = _embed(tuple(views), kernel, approximation, shard)
    return embedded.operator, embedded.distance()


@dataclass(frozen=True)
class _Embedded:
    """Views in feature space."""

    kernel: Kernel
    operator: CovarianceOperator
    across: list[MatchedPairs]
    shard: Shard

    def distance(self) -> Tensor:
        # Exact under an approximation too: paired evaluations cost O(bp), and what separates two views of one sample
        # is mostly fine structure that a few landmarks or frequencies do not see.
        each = [self.kernel.evaluate_distance(pairs).sum() for pairs in self.across]
        return self.shard.sum(torch.stack(each).mean()) / self.shard.total


def _embed(views: tuple[Tensor, ...], kernel: Kernel, approximation: Approximation | None, shard: Shard) -> _Embedded:
    """Views ``(b, p)`` as explicit features, where there are any, or else by their Gram matrices."""
    rank = kernel.rank(views[0].shape[-1])
    if approximation is None and not isinstance(kernel, Linear):
        if shard.world > 1:
            views = shard.gather(torch.stack(views)).unbind()
            shard = Shard.of(views[0], gather=False)
        pairs = ViewPairs(views)
        kernel = kernel.resolve(pairs.within)
        gram, size = sized(kernel.evaluate(pairs.within), kernel, shard)
        return _Embedded(kernel, CovarianceOperator.from_symmetric(gram, rank, size), pairs.across, shard)
    if approximation is not None:
        kernel = resolved(kernel, views, shard)
        features, size = sized(approximation.features(views, kernel, shard), kernel, shard)
        operator = CovarianceOperator.from_features(features, shard=shard, rank=rank, scale=size**2)
    else:
        assert isinstance(kernel, Linear)
        operator = CovarianceOperator.from_features(torch.stack(views), shard=shard, rank=rank, scale=kernel.gamma)
    across = [MatchedPairs(x, y) for x, y in combinations(views, 2)]
    return _Embedded(kernel, operator, across, shard)


def check_samples(shard: Shard) -> None:
    """Refuse a batch without variance."""
    if shard.total < 2:
        raise ValueError("a batch of one sample has no variance: the (global) batch must have at least two samples")


def sized(values: Tensor, kernel: Kernel, shard: Shard) -> tuple[Tensor, float | Tensor]:
    """The values of an unbounded kernel over a number that all processes share, and that number.

    A polynomial of embeddings of 1e6 is 1e24, and the sum of its squares more than float32 can hold.
    """
    if _is_bounded(kernel):
        return values, 1.0
    size = shard.sum(values.detach().abs().amax()).clamp_min(1.0)
    return values / size, size


def _is_bounded(kernel: Kernel) -> bool:
    """Whether `kernel.bound` is finite, without a look at the weights of a sum, which may be learnt."""
    if isinstance(kernel, Sum | Product):
        return all(isinstance(member, Kernel) and _is_bounded(member) for member in kernel.kernels)
    return math.isfinite(kernel.bound)
