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

__all__ = [
    "AllPairs",
    "MatchedPairs",
    "Pairs",
    "SamePoints",
    "TwoViews",
    "at_least_float32",
    "is_concrete",
    "safe_sqrt",
]


def at_least_float32(x: Tensor, name: str = "x") -> Tensor:
    """`x` in float32, or float64 if it came so; anything but a floating-point tensor is refused."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
    if not x.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor, got {x.dtype}; convert it with {name}.float()")
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def full_precision(x: Tensor) -> torch.autocast:
    """Autocast off: in half precision a Gram matrix loses its small eigenvalues."""
    return torch.autocast(device_type=x.device.type if isinstance(x, Tensor) else "cpu", enabled=False)


def is_concrete(x: Tensor) -> bool:
    """Whether `x` holds numbers that Python may look at: not while compiling, not inside torch.func transforms."""
    return not torch.compiler.is_compiling() and not torch._C._functorch.is_functorch_wrapped_tensor(x)


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


class _SquaredLength(torch.autograd.Function):
    """``|x_i|^2`` of the rows, with a gradient of one pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        lengths: Tensor = torch.linalg.vecdot(x, x)
        return lengths

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        product: Tensor = x * (2 * grad).unsqueeze(-1)
        return product


class _SelfDistances(torch.autograd.Function):
    """Squared distances of all rows of `x`, which should lie around the origin.

    With ``S = G + G^T``, the gradient is ``2 (diag(S 1) - S) x``: one matrix product.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        inner = x @ x.mT
        norm = inner.diagonal(dim1=-2, dim2=-1).clone()
        squared = inner.mul_(-2).add_(norm.unsqueeze(-1)).add_(norm.unsqueeze(-2))
        squared = squared.masked_fill_(_is_noise(squared, norm, norm), 0.0)
        squared.diagonal(dim1=-2, dim2=-1).zero_()
        return squared

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        product: Tensor = _laplacian_of(grad).mul_(2) @ x
        return product


class _TwoViewDistances(torch.autograd.Function):
    """`_SelfDistances` of two views and the squared distances of their matching rows, together."""

    generate_vmap_rule = True

    @staticmethod
    def forward(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        origin = (_origin(first) + _origin(second)) / 2
        if is_concrete(first):
            x = first.new_empty(2, *first.shape)
            torch.sub(first, origin, out=x[0])
            torch.sub(second, origin, out=x[1])
        else:
            x = torch.stack([first - origin, second - origin])
        gap = x[0] - x[1]
        matched: Tensor = torch.linalg.vecdot(gap, gap)
        return _SelfDistances.forward(x), matched, x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(output[2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, matched_grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
        x: Tensor = ctx.saved_tensors[0]
        twice, laplacian = (2 * matched_grad).unsqueeze(-1), _laplacian_of(grad)
        if is_concrete(x):
            pulls = torch.empty_like(x)
            torch.sub(x[0], x[1], out=pulls[0]).mul_(twice)
            torch.neg(pulls[0], out=pulls[1])
            pulls.baddbmm_(laplacian, x, alpha=2)
        else:
            pull = (x[0] - x[1]) * twice
            pulls = torch.stack([pull, -pull]) + 2 * (laplacian @ x)
        return pulls[0], pulls[1]


def _self_l1(x: Tensor) -> Tensor:
    """L1 distances of all rows ``(n, p)``, each pair computed once: several times faster than torch.cdist."""
    n = len(x)
    i, j = torch.triu_indices(n, n, offset=1, device=x.device)
    upper = x.new_zeros(n * n).index_copy(0, i * n + j, torch.pdist(x, p=1.0)).view(n, n)
    return upper + upper.mT


def _laplacian_of(grad: Tensor) -> Tensor:
    """``diag(S 1) - S`` with ``S = G + G^T``: half of what turns a gradient of squared distances into one of points."""
    negative = -grad - grad.mT
    negative.diagonal(dim1=-2, dim2=-1).sub_(negative.sum(-1))
    return negative


def _origin(x: Tensor) -> Tensor:
    """A point among the points, to measure from.

    |x|^2 + |y|^2 - 2 x.y cancels badly when points lie far from the origin and near each other, as they do when a
    network collapses. Distances do not depend on the origin, so no gradient goes through it.
    """
    return x.detach().mean(dim=-2, keepdim=True)


def _is_noise(squared: Tensor, x_norm: Tensor, y_norm: Tensor) -> Tensor:
    """Where squared distances are below round-off: those points are the same."""
    largest = torch.maximum(x_norm.amax(-1), y_norm.amax(-1))
    return squared <= (8 * torch.finfo(squared.dtype).eps * largest).unsqueeze(-1).unsqueeze(-1)


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
        origin = _origin(self.x)
        x = self.x - origin
        if self.y is None:
            distances: Tensor = _SelfDistances.apply(x)
            return distances
        y = self.y - origin
        x_norm, y_norm = x.square().sum(-1), y.square().sum(-1)
        squared = (x_norm.unsqueeze(-1) + y_norm.unsqueeze(-2)).sub(x @ y.mT, alpha=2)
        return squared.masked_fill(_is_noise(squared.detach(), x_norm.detach(), y_norm.detach()), 0.0)

    @cached_property
    def l1_distance(self) -> Tensor:
        if self.y is not None or not is_concrete(self.x):
            return torch.cdist(self.x, self.x if self.y is None else self.y, p=1.0)
        if self.x.dim() == 2:
            return _self_l1(self.x)
        each = torch.stack([_self_l1(points) for points in self.x.flatten(0, -3)])
        return each.reshape(*self.x.shape[:-1], self.x.shape[-2])


class TwoViews(AllPairs):
    """All pairs within each of two views ``(n, p)``, and with `matched`, row i of one with row i of the other.

    The matched distances come out of the same pass as the others, and so do their gradients.
    """

    def __init__(self, first: Tensor, second: Tensor) -> None:
        self.views = (first, second)
        self.y = None
        self.dimension = first.shape[-1]

    @cached_property
    def x(self) -> Tensor:  # type: ignore[override]
        return torch.stack(self.views)

    @cached_property
    def _distances(self) -> tuple[Tensor, Tensor]:
        squared, matched, _ = _TwoViewDistances.apply(*self.views)
        return squared, matched

    @cached_property
    def squared_distance(self) -> Tensor:
        return self._distances[0]

    @cached_property
    def matched(self) -> MatchedPairs:
        pairs = MatchedPairs(*self.views)
        if "squared_distance" in self.__dict__:
            pairs.__dict__["squared_distance"] = self._distances[1]
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
    def _difference(self) -> Tensor:
        return self.x - self.y

    @cached_property
    def inner(self) -> Tensor:
        return (self.x * self.y).sum(-1)

    @cached_property
    def squared_distance(self) -> Tensor:
        squares: Tensor = _SquaredLength.apply(self._difference)
        return squares

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
