"""Which points meet which: the inner products and distances that every kernel is a function of.

A kernel is an elementwise function of an inner product or a distance, so `kernel(x, y)`, `kernel.paired` and
`kernel.diagonal` differ only in the pairs they look at. Each geometry below computes a quantity when it is first
asked for and keeps it: the members of a mixture, and the median heuristic, share one distance matrix.

All of it runs in float32 at least, and accepts leading batch dimensions: points have shape ``(..., n, p)``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

__all__ = ["AllPairs", "MatchedPairs", "Pairs", "SamePoints", "at_least_float32", "safe_sqrt"]


def at_least_float32(x: Tensor, name: str = "x") -> Tensor:
    """`x` in float32, or float64 if it came so; anything but a floating-point tensor is refused."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {x.dtype}; convert it with {name}.float()")
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def safe_sqrt(x: Tensor) -> Tensor:
    """Square root of x >= 0 whose gradient at zero is zero instead of infinite."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0).sqrt(), 0.0)


class SelfInner(torch.autograd.Function):
    """``x x^T`` with the one matrix product its gradient needs, ``(G + G^T) x``, instead of two."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x @ x.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        product: Tensor = (grad + grad.mT) @ x
        return product


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
        # |x|^2 + |y|^2 - 2 x.y cancels badly when the points lie far from the origin and near each other, as
        # they do when a network collapses, so the origin is moved among them first. It is a constant: distances
        # do not depend on it.
        origin = self.x.detach().mean(dim=-2, keepdim=True)
        x = self.x - origin
        if self.y is None:
            inner = SelfInner.apply(x)
            x_norm = inner.diagonal(dim1=-2, dim2=-1)
            y_norm = x_norm
        else:
            y = self.y - origin
            inner = x @ y.mT
            x_norm, y_norm = x.square().sum(-1), y.square().sum(-1)
        squared: Tensor = (x_norm.unsqueeze(-1) + y_norm.unsqueeze(-2)).sub(inner, alpha=2)
        # What is left below round-off is noise, negative as often as not: those points are the same.
        largest = torch.maximum(x_norm.detach().amax(-1), y_norm.detach().amax(-1))
        noise = (8 * torch.finfo(squared.dtype).eps * largest).unsqueeze(-1).unsqueeze(-1)
        same = squared.detach() <= noise
        if self.y is None:
            same = same | torch.eye(same.shape[-1], dtype=torch.bool, device=same.device)
        return squared.masked_fill(same, 0.0)

    @cached_property
    def l1_distance(self) -> Tensor:
        return torch.cdist(self.x, self.x if self.y is None else self.y, p=1.0)


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
    def _difference(self) -> Tensor:
        return self.x - self.y

    @cached_property
    def inner(self) -> Tensor:
        return (self.x * self.y).sum(-1)

    @cached_property
    def squared_distance(self) -> Tensor:
        return self._difference.square().sum(-1)

    @cached_property
    def l1_distance(self) -> Tensor:
        return self._difference.abs().sum(-1)


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
