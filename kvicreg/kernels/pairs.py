"""Which points meet which: the inner products and distances that every kernel is a function of.

A kernel is an elementwise function of an inner product or a distance, so `kernel(x, y)`, `kernel.paired` and
`kernel.diagonal` differ only in the pairs they look at. Each geometry below computes a quantity when it is first
needed and remembers it: the members of a mixture, and the rule of their bandwidth, share one distance matrix.

All of it runs in float32 at least, and accepts leading batch dimensions: points have shape ``(..., n, p)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from kvicreg.kernels.distances import (
    cross_distances,
    inner_products,
    l1_distances,
    matched_distances,
    origin_of,
    safe_sqrt,
    two_view_distances,
    within_distances,
)
from kvicreg.kernels.tensors import at_least_float32

__all__ = [
    "AllPairs",
    "EveryTwoViews",
    "MatchedPairs",
    "Pairs",
    "SamePoints",
    "ViewPairs",
    "matched_views",
]


class Pairs(ABC):
    """Pairs of points, with `inner`, `squared_distance`, `distance` and `l1_distance` of each."""

    dimension: int
    """p, the number of coordinates."""

    @cached_property
    @abstractmethod
    def inner(self) -> Tensor:
        """``x . y``."""

    @cached_property
    @abstractmethod
    def squared_distance(self) -> Tensor:
        """``|x - y|_2^2``."""

    @cached_property
    @abstractmethod
    def l1_distance(self) -> Tensor:
        """``|x - y|_1``."""

    @cached_property
    def distance(self) -> Tensor:
        """``|x - y|_2``, with a zero gradient where two points coincide."""
        return safe_sqrt(self.squared_distance)

    @abstractmethod
    def divided(self, scales: Tensor) -> Self:
        """The same pairs with every coordinate divided by its scale ``(p,)``."""


class AllPairs(Pairs):
    """Every row of `x` with every row of `y`, or of `x` itself: quantities of shape ``(..., n, m)``.

    `x` may be a tuple of views ``(n, p)``, which are stacked when they have to be. `squared` computes the squared
    distances where somebody else knows a better way.
    """

    def __init__(
        self, x: Tensor | tuple[Tensor, ...], y: Tensor | None = None, squared: Callable[[], Tensor] | None = None
    ) -> None:
        self._views = [at_least_float32(view, "x") for view in (x if isinstance(x, tuple) else (x,))]
        self.y = None if y is None else at_least_float32(y, "y")
        first = self._views[0]
        if first.dim() < 2 or (self.y is not None and self.y.dim() < 2):
            raise ValueError(f"points must have shape (n, p), got {tuple(first.shape)}")
        self.dimension = first.shape[-1]
        if self.y is not None and self.dimension != self.y.shape[-1]:
            raise ValueError(
                f"x and y must have the same number of columns, got {self.dimension} and {self.y.shape[-1]}"
            )
        self._squared, self._grad_enabled = squared, torch.is_grad_enabled()

    @classmethod
    def of(cls, view: Tensor | AllPairs) -> AllPairs:
        """Every two points of a view, whose geometry may be there already."""
        return view if isinstance(view, AllPairs) else cls(view)

    @cached_property
    def x(self) -> Tensor:
        """The points, ``(..., n, p)``."""
        if len(self._views) == 1:
            return self._views[0]
        with torch.set_grad_enabled(self._grad_enabled):  # whoever looks at them first, perhaps without gradients
            return torch.stack(self._views)

    @cached_property
    def inner(self) -> Tensor:
        return inner_products(self.x) if self.y is None else self.x @ self.y.mT

    @cached_property
    def squared_distance(self) -> Tensor:
        if self._squared is not None:
            return self._squared()
        if self.y is None:
            return within_distances(self.x)
        origin = origin_of(self.x)
        return cross_distances(self.x - origin, self.y - origin)

    @cached_property
    def l1_distance(self) -> Tensor:
        return l1_distances(self.x) if self.y is None else torch.cdist(self.x, self.y, p=1.0)

    def divided(self, scales: Tensor) -> AllPairs:
        return AllPairs(self.x / scales.to(self.x), None if self.y is None else self.y / scales.to(self.y))


class MatchedPairs(Pairs):
    """Row i of `x` with row i of `y`: quantities of shape ``(..., n)``, never an ``n x n`` matrix.

    `squared` computes the squared distances where somebody else knows a better way.
    """

    def __init__(self, x: Tensor, y: Tensor, squared: Callable[[], Tensor] | None = None) -> None:
        self.x, self.y = at_least_float32(x, "x"), at_least_float32(y, "y")
        if self.x.shape != self.y.shape or self.x.dim() < 2:
            raise ValueError(
                f"x and y must have the same shape (n, p), got {tuple(self.x.shape)} and {tuple(self.y.shape)}"
            )
        self.dimension, self._squared = self.x.shape[-1], squared

    def at_ends(self, of_points: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """A function of points at `x` and at `y`."""
        return of_points(self.x), of_points(self.y)

    @cached_property
    def inner(self) -> Tensor:
        return (self.x * self.y).sum(-1)

    @cached_property
    def squared_distance(self) -> Tensor:
        return matched_distances(self.x, self.y) if self._squared is None else self._squared()

    @cached_property
    def l1_distance(self) -> Tensor:
        return (self.x - self.y).abs().sum(-1)

    def divided(self, scales: Tensor) -> MatchedPairs:
        return MatchedPairs(self.x / scales.to(self.x), self.y / scales.to(self.y))


class EveryTwoViews(MatchedPairs):
    """Row i of one view with row i of another, for every two of the views ``(v, n, p)``: ``(v (v - 1) / 2, n)``.

    What is as large as a view is made once for each view, not for each pair of them.
    """

    def __init__(self, views: Tensor) -> None:
        self.views = at_least_float32(views, "views")
        self.dimension = views.shape[-1]
        self._first, self._second = torch.triu_indices(len(views), len(views), offset=1, device=views.device)

    def at_ends(self, of_points: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        values = of_points(self.views)
        return values[self._first], values[self._second]

    def _of_pairs(self, matrices: Tensor) -> Tensor:
        """The entries of matrices ``(n, v, v)``, one for each row, that belong to the pairs."""
        return matrices[:, self._first, self._second].mT

    @cached_property
    def inner(self) -> Tensor:
        return self._of_pairs(inner_products(self.views.transpose(0, 1)))

    @cached_property
    def squared_distance(self) -> Tensor:
        centred = self.views - self.views.detach().mean(0)
        rows = centred.transpose(0, 1)
        return self._of_pairs(cross_distances(rows, rows))

    @cached_property
    def l1_distance(self) -> Tensor:
        return self._of_pairs(torch.cdist(self.views.transpose(0, 1), self.views.transpose(0, 1), p=1.0))

    def divided(self, scales: Tensor) -> EveryTwoViews:
        return EveryTwoViews(self.views / scales.to(self.views))


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

    def divided(self, scales: Tensor) -> SamePoints:
        return SamePoints(self.x / scales.to(self.x))


def matched_views(views: Sequence[Tensor]) -> MatchedPairs:
    """Row i of one view with row i of another, for every two views ``(n, p)``."""
    return MatchedPairs(views[0], views[1]) if len(views) == 2 else EveryTwoViews(torch.stack(list(views)))


class ViewPairs:
    """Several views ``(n, p)`` of the same samples.

    Attributes:
        within: every two samples of each view.
        across: row i of one view with row i of another, for every two views.

    Of two views the distances within and across are computed together, whichever is needed first.
    """

    across: MatchedPairs

    def __init__(self, views: Sequence[Tensor]) -> None:
        if len(views) == 2:
            two = _TwoViews(views[0], views[1])
            self.within = AllPairs(tuple(views), squared=lambda: two.distances[0])
            self.across = MatchedPairs(views[0], views[1], squared=lambda: two.distances[1])
        else:
            stacked = torch.stack(list(views))
            self.within, self.across = AllPairs(stacked), EveryTwoViews(stacked)


class _TwoViews:
    def __init__(self, first: Tensor, second: Tensor) -> None:
        self.first, self.second = first, second

    @cached_property
    def distances(self) -> tuple[Tensor, Tensor]:
        """The squared distances within each view, and across."""
        return two_view_distances(self.first, self.second)
