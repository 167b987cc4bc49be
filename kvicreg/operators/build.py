"""From embeddings to the covariance operator and the distance of the views in feature space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvicreg import kernels
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.composite import Product, Sum
from kvicreg.kernels.cosine import unit_views
from kvicreg.kernels.linear import Linear
from kvicreg.kernels.pairs import MatchedPairs, ViewPairs, matched_views
from kvicreg.kernels.tensors import at_least_float32, full_precision
from kvicreg.operators.approximation import Approximation
from kvicreg.operators.bandwidth import resolved
from kvicreg.operators.covariance import CovarianceOperator
from kvicreg.operators.shard import Shard

__all__ = [
    "Embedded",
    "check_samples",
    "covariance_operator",
    "explicit_features",
    "sized",
    "unit_operators",
    "view_operators",
]


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

    Example:
        >>> operator, distance = view_operators([*torch.randn(2, 64, 8)], RBF())
        >>> operator.eigenvalues().shape, distance.shape
        (torch.Size([2, 64]), torch.Size([]))
    """
    shard = Shard.of(views[0], gather=gather)
    check_samples(shard)
    kernel = kernel.unit(views[0].shape[-1]) if unit else kernel
    embedded = _embed(tuple(views), kernel, approximation, shard)
    return embedded.operator, embedded.distance()


def unit_operators(
    views: Sequence[Tensor],
    kernel: Kernel,
    approximation: Approximation | None = None,
    gather: bool = True,
    centred: bool = False,
) -> Embedded:
    """All views ``(b, p)`` at unit length in feature space: their second moments, of trace 1, or covariances."""
    shard = Shard.of(views[0], gather=gather)
    check_samples(shard)
    points, kernel = unit_views(views, kernel)
    return _embed(tuple(points), kernel, approximation, shard, centred=centred)


@dataclass(frozen=True)
class Embedded:
    """Views in feature space: an operator for each, and the pairs of views of one sample."""

    kernel: Kernel
    operator: CovarianceOperator
    across: MatchedPairs
    shard: Shard

    def cosines(self) -> Tensor:
        """Mean over the pairs of views of ``<phi(x_i), phi(x'_i)>``, of this process's rows, ``(b,)``."""
        values = self.kernel.evaluate(self.across)
        return values.reshape(-1, values.shape[-1]).mean(0)

    def mean(self, values: Tensor) -> Tensor:
        """The mean of values ``(b,)`` of this process's rows over the rows of all."""
        return self.shard.sum(values.sum()) / self.shard.total

    def distance(self) -> Tensor:
        # Exact under an approximation too: paired evaluations cost O(bp), and what separates two views of one sample
        # is mostly fine structure that a few landmarks or frequencies do not see.
        distances = self.kernel.evaluate_distance(self.across)
        return self.mean(distances.reshape(-1, distances.shape[-1]).mean(0))


def _embed(
    views: tuple[Tensor, ...],
    kernel: Kernel,
    approximation: Approximation | None,
    shard: Shard,
    *,
    centred: bool = True,
) -> Embedded:
    """Views ``(b, p)`` as explicit features, where there are any, or else by their Gram matrices."""
    rank = kernel.rank(views[0].shape[-1])
    if approximation is None and not isinstance(kernel, Linear):
        views, shard = shard.whole(views)
        pairs = ViewPairs(views)
        kernel = kernel.resolve(pairs.within)
        gram, size = sized(kernel.evaluate(pairs.within), kernel, shard)
        operator = CovarianceOperator.from_symmetric(gram, rank, size, centred=centred)
        return Embedded(kernel, operator, pairs.across, shard)
    kernel, features, scale = explicit_features(views, kernel, approximation, shard)
    operator = CovarianceOperator.from_features(features, shard=shard, rank=rank, scale=scale, centred=centred)
    return Embedded(kernel, operator, matched_views(views), shard)


def explicit_features(
    views: tuple[Tensor, ...], kernel: Kernel, approximation: Approximation | None, shard: Shard
) -> tuple[Kernel, Tensor, float | Tensor]:
    """The kernel with its bandwidth fixed, features ``(v, b, D)``, and the scale that their inner products still need.

    Without an approximation the kernel must be linear.
    """
    if approximation is None:
        assert isinstance(kernel, Linear)
        return kernel, torch.stack(views), kernel.gamma
    kernel = resolved(kernel, views, shard)
    features, size = sized(approximation.features(views, kernel, shard), kernel, shard)
    return kernel, features, size**2


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
