"""Which points meet which: the inner products and distances that every kernel is a function of.

A kernel is an elementwise function of an inner product or a distance, so `kernel(x, y)`, `kernel.paired` and
`kernel.diagonal` differ only in the pairs they look at. Each geometry below computes a quantity when it is first
asked for and keeps it: the members of a mixture, and the median heuristic, share one distance matrix.

All of it runs in float32 at least, and accepts leading batch dimensions: points have shape ``(..., n, p)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from kvicreg.kernels.distances import (
    Gram,
    MatchedDistances,
    SelfDistances,
    SelfInner,
    TwoViewDistances,
    TwoViewProjections,
    is_noise,
    origin_of,
    safe_sqrt,
    self_l1,
)
from kvicreg.kernels.tensors import at_least_float32, full_precision, is_concrete

__all__ = [
    "AllPairs",
    "MatchedPairs",
    "Pairs",
    "SamePoints",
    "TwoViews",
    "at_least_float32",
    "full_precision",
    "is_concrete",
    "safe_sqrt",
]


class Pairs:
    """Pairs of points, with `inner`, `squared_distance` and `l1_distance` of each."""

    dimension: int
    """p, the number of coordinates."""

    @property
    def inner(self) -> Tensor:
        raise NotImplementedError

    @property
    def squared_distance(self) -> Tensor:
        raise NotImplementedError

    @property
    def l1_distance(self) -> Tensor:
        raise NotImplementedError

    @cached_property
    def distance(self) -> Tensor:
        """Euclidean distance, with a zero gradient where two points coincide."""
        return safe_sqrt(self.squared_distance)


class AllPairs(Pairs):
    """Every row of `x` with every row of `y`, or of `x` itself: quantities of shape ``(..., n, m)``."""

    def __init__(self, x: Tensor, y: Tensor | None = None) -> None:
        self.x = at_least_float32(x, "x")
        self.y = None if y is None else at_least_float32(y, "y")
        if self.x.dim() < 2 or (self.y is not None and self.y.dim() < 2):
            raise ValueError(f"points must have shape (n, p), got {tuple(x.shape)}")
        if self.y is not None and self.x.shape[-1] != self.y.shape[-1]:
            raise ValueError(
                f"x and y must have the same number of columns, got {self.x.shape[-1]} and {self.y.shape[-1]}"
            )
        self.dimension = self.x.shape[-1]

    @cached_property
    def inner(self) -> Tensor:
        if self.y is None:
            product: Tensor = SelfInner.apply(self.x)
            return product
        return self.x @ self.y.mT

    @cached_property
    def squared_distance(self) -> Tensor:
        origin = origin_of(self.x)
        x = self.x - origin
        if self.y is None:
            distances: Tensor = SelfDistances.apply(x)
            return distances
        y = self.y - origin
        x_norm, y_norm = x.square().sum(-1), y.square().sum(-1)
        squared = (x_norm.unsqueeze(-1) + y_norm.unsqueeze(-2)).sub(x @ y.mT, alpha=2)
        return squared.masked_fill(is_noise(squared.detach(), x_norm.detach(), y_norm.detach()), 0.0)

    @cached_property
    def l1_distance(self) -> Tensor:
        if self.y is not None or not is_concrete(self.x):
            return torch.cdist(self.x, self.x if self.y is None else self.y, p=1.0)
        if self.x.dim() == 2:
            return self_l1(self.x)
        each = torch.stack([self_l1(points) for points in self.x.flatten(0, -3)])
        return each.reshape(*self.x.shape[:-1], self.x.shape[-2])


class TwoViews(AllPairs, Sequence[Tensor]):
    """Two views ``(n, p)``: all pairs within each, and with `matched`, row i of one with row i of the other.

    The matched distances come out of the same pass as the others, or as the projections, and so do their gradients.
    The gradients of the matrices must be symmetric, as those of every function of a covariance operator are.
    """

    def __init__(self, first: Tensor, second: Tensor) -> None:
        self.views = (first, second)
        self.y = None
        self.dimension = first.shape[-1]
        self._matched: Tensor | None = None

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, view: int) -> Tensor:  # type: ignore[override]
        return self.views[view]

    @cached_property
    def x(self) -> Tensor:  # type: ignore[override]
        return torch.stack(self.views)

    @cached_property
    def inner(self) -> Tensor:
        product: Tensor = Gram.apply(self.x)
        return product

    @cached_property
    def squared_distance(self) -> Tensor:
        squared: Tensor
        squared, self._matched, _ = TwoViewDistances.apply(*self.views)
        return squared

    def project(self, directions: Tensor) -> list[Tensor]:
        """The inner products of each view with the columns of `directions` ``(p, m)``."""
        if self._matched is not None or not is_concrete(self.views[0]):
            return [view @ directions for view in self.views]
        first, second, self._matched = TwoViewProjections.apply(*self.views, directions)
        return [first, second]

    @property
    def matched(self) -> MatchedPairs:
        pairs = MatchedPairs(*self.views)
        if self._matched is not None:
            pairs.__dict__["squared_distance"] = self._matched
        return pairs


class MatchedPairs(Pairs):
    """Row i of `x` with row i of `y`: quantities of shape ``(..., n)``, never an ``n x n`` matrix."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = at_least_float32(x, "x"), at_least_float32(y, "y")
        if self.x.shape != self.y.shape or self.x.dim() < 2:
            raise ValueError(
                f"x and y must have the same shape (n, p), got {tuple(self.x.shape)} and {tuple(self.y.shape)}"
            )
        self.dimension = self.x.shape[-1]

    @cached_property
    def inner(self) -> Tensor:
        return (self.x * self.y).sum(-1)

    @cached_property
    def squared_distance(self) -> Tensor:
        squares: Tensor = MatchedDistances.apply(self.x, self.y)
        return squares

    @cached_property
    def l1_distance(self) -> Tensor:
        return (self.x - self.y).abs().sum(-1)


class SamePoints(Pairs):
    """Row i of `x` with itself: quantities of shape ``(..., n)``."""

    def __init__(self, x: Tensor) -> None:
        self.x = at_least_float32(x, "x")
        if self.x.dim() < 2:
            raise ValueError(f"x must have shape (n, p), got {tuple(x.shape)}")
        self.dimension = self.x.shape[-1]

    @cached_property
    def inner(self) -> Tensor:
        return self.x.square().sum(-1)

    @cached_property
    def squared_distance(self) -> Tensor:
        return self.x.new_zeros(self.x.shape[:-1])

    @cached_property
    def l1_distance(self) -> Tensor:
        return self.squared_distance
