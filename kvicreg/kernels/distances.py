"""Inner products and distances of points, with written gradients: few passes over a matrix where autograd makes many.

On a CPU large temporaries cost more than the arithmetic on them, so what can be done in place is, and what is wide is
done a block of rows at a time. Each function has a plain formula, and a shortcut that computes the same where tensors
are concrete. The shortcuts' gradients are themselves made of differentiable operations on what was given, so that
second derivatives are right, and take cotangents that are not symmetric.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvicreg.kernels.tensors import is_concrete

__all__ = [
    "cross_distances",
    "inner_products",
    "is_symmetric",
    "l1_distances",
    "matched_distances",
    "origin_of",
    "safe_sqrt",
    "squared_length",
    "symmetric_product",
    "two_view_distances",
    "within_distances",
]

BLOCK = 256
"""Rows of a symmetric product that are computed at once; fewer where there are few, but not fewer than 128."""
ROWS = 1024
"""Rows of points that are taken at once, so that a temporary of them stays in the cache."""
ORIGIN_ROWS = 27
"""Rows that the origin is the middle of: a power of three."""
ROUND_OFFS = 4
"""Units in the last place of |x|^2 + |y|^2 up to which a squared distance is round-off."""


def symmetric_product(x: Tensor, weights: Tensor | None = None) -> Tensor:
    """``x diag(weights) x^T`` of ``(..., n, k)`` matrices, all weights ``(..., k)`` 1 where none are given.

    On a CPU blocks on and above the diagonal are multiplied and mirrored: little more than half the work.
    """
    n, k = x.shape[-2:]
    if n < BLOCK or k == 0 or x.device.type != "cpu" or not is_concrete() or torch.is_grad_enabled():
        return (x if weights is None else x * weights.unsqueeze(-2)) @ x.mT
    product, block = x.new_empty(*x.shape[:-1], n), min(BLOCK, max(128, n // 4))
    for i, (points, out) in enumerate(zip(x.reshape(-1, n, k), product.view(-1, n, n), strict=True)):
        for start in range(0, n, block):
            stop = min(start + block, n)
            rows = points[start:stop] if weights is None else points[start:stop] * weights.reshape(-1, k)[i]
            torch.mm(rows, points[start:].mT, out=out[start:stop, start:])
            out[stop:, start:stop] = out[start:stop, stop:].mT
    return product


def squared_length(x: Tensor) -> Tensor:
    """``|x_i|^2`` of the rows ``(..., n, p)``, shape ``(..., n)``; without a temporary, unlike a sum of squares."""
    if not is_concrete() or torch.is_grad_enabled():
        return x.square().sum(-1)
    lengths: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return lengths.square_()


def origin_of(x: Tensor) -> Tensor:
    """A point among the points ``(..., n, p)`` to measure from, ``(..., 1, p)``: in the middle of some of the rows.

    |x|^2 + |y|^2 - 2 x.y cancels badly when points lie far from the origin and near each other, as they do when a
    network collapses; the mean would be far from most of them when a few lie far out. Medians of three, of three of
    those, and so on, are as robust as the median and cost next to nothing. Distances do not depend on the origin, so no
    gradient goes through it. Of two clusters only one can be near it: in float32 the points of the other are told apart
    down to about a thousandth of the distance between the two.
    """
    n = x.shape[-2]
    rows = x.detach()[..., torch.arange(ORIGIN_ROWS, device=x.device) * n // ORIGIN_ROWS, :]
    while rows.shape[-2] > 1:
        a, b, c = rows.chunk(3, dim=-2)
        rows = torch.maximum(torch.minimum(a, b), torch.minimum(torch.maximum(a, b), c))
    return rows


def is_symmetric(matrices: Tensor) -> bool:
    """Whether concrete matrices ``(..., n, n)`` on the CPU are symmetric, seen in their products with one vector."""
    n = matrices.shape[-1]
    probe = torch.cos(torch.arange(n, dtype=matrices.dtype))
    for matrix in matrices.detach().reshape(-1, n, n):
        product = torch.mv(matrix, probe)
        tolerance = 100 * torch.finfo(matrix.dtype).eps * product.abs().max()
        if not bool((product - torch.mv(matrix.mT, probe)).abs().max() <= tolerance):
            return False
    return True


def _with_transpose(grad: Tensor) -> tuple[Tensor, int]:
    """A matrix and a number whose product is ``G + G^T``.

    A gradient is symmetric nearly always, and adding a large matrix to its transpose takes longer than to see that.
    """
    looks = grad.device.type == "cpu" and grad.shape[-1] >= BLOCK and not torch.is_grad_enabled()
    return (grad, 2) if looks and is_symmetric(grad) else (grad + grad.mT, 1)


# -- inner products ------------------------------------------------------------------------------------------------


def inner_products(x: Tensor) -> Tensor:
    """``x_i . x_j`` of all rows, ``(..., n, n)``."""
    product: Tensor = _InnerProducts.apply(x) if is_concrete() else x @ x.mT
    return product


class _InnerProducts(torch.autograd.Function):
    """``x x^T`` with the one matrix product its gradient needs, ``(G + G^T) x``, instead of two."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return symmetric_product(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        both, factor = _with_transpose(grad)
        product: Tensor = both @ x
        return product if factor == 1 else product.mul_(factor)


# -- Euclidean distances -------------------------------------------------------------------------------------------


def cross_distances(x: Tensor, y: Tensor) -> Tensor:
    """``|x_i - y_j|^2``, ``(..., n, m)``, of points that should lie around the origin.

    As much as may be round-off is taken off, so that points that are the same have distance zero; not of the gradient.
    """
    norms = x.square().sum(-1).unsqueeze(-1) + y.square().sum(-1).unsqueeze(-2)
    squared = norms - 2 * (x @ y.mT)
    value = squared.detach()
    noise = norms.detach() * (ROUND_OFFS * torch.finfo(value.dtype).eps)
    return squared + ((value - noise).clamp_min(0) - value)


def within_distances(x: Tensor) -> Tensor:
    """``|x_i - x_j|^2`` of all rows, ``(..., n, n)``."""
    if not is_concrete():
        centred = x - origin_of(x)
        return cross_distances(centred, centred)
    distances: Tensor = _WithinDistances.apply(x - origin_of(x))
    return distances


def _squared_distances(x: Tensor) -> Tensor:
    inner = symmetric_product(x)
    norm = inner.diagonal(dim1=-2, dim2=-1) * (1 - ROUND_OFFS * torch.finfo(x.dtype).eps)
    return inner.mul_(-2).add_(norm.unsqueeze(-1)).add_(norm.unsqueeze(-2)).clamp_min_(0)


class _WithinDistances(torch.autograd.Function):
    """With ``S = G + G^T`` the gradient is ``2 (diag(S 1) - S) x``: one matrix product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _squared_distances(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return _pull_of_distances(x, grad)


def _pull_of_distances(x: Tensor, grad: Tensor) -> Tensor:
    both, factor = _with_transpose(grad)
    pull: Tensor = x * (2 * factor * both.sum(-1, keepdim=True))
    if x.dim() == 3:
        return pull.baddbmm_(both, x, alpha=-2 * factor)
    return pull.sub_(both @ x, alpha=2 * factor)


def matched_distances(x: Tensor, y: Tensor) -> Tensor:
    """``|x_i - y_i|^2`` of matching rows, ``(..., n)``."""
    squared: Tensor = _MatchedDistances.apply(x, y) if is_concrete() else (x - y).square().sum(-1)
    return squared


class _MatchedDistances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        blocks = zip(x.split(ROWS, dim=-2), y.split(ROWS, dim=-2), strict=True)
        return torch.cat([squared_length(a - b) for a, b in blocks], dim=-1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        pull = (x - y).mul_((2 * grad).unsqueeze(-1))
        return pull, -pull


def two_view_distances(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """`within_distances` of each of two views ``(n, p)``, ``(2, n, n)``, and `matched_distances` of one with the other.

    One pass for both, and one for their gradients.
    """
    if not is_concrete():
        return within_distances(torch.stack([first, second])), matched_distances(first, second)
    within, matched = _TwoViewDistances.apply(first, second)
    return within, matched


class _TwoViewDistances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        x = first.new_empty(2, *first.shape)
        torch.sub(first, origin_of(first), out=x[0])
        torch.sub(second, origin_of(second), out=x[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(first, second, x)
        return _squared_distances(x), squared_length(first - second)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, matched_grad: Tensor | None) -> tuple[Tensor, Tensor]:
        first, second, x = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            x = torch.stack([first - origin_of(first), second - origin_of(second)])
        pulls = torch.zeros_like(x) if grad is None else _pull_of_distances(x, grad)
        if matched_grad is not None:
            pull = (first - second).mul_((2 * matched_grad).unsqueeze(-1))
            pulls[0].add_(pull)
            pulls[1].sub_(pull)
        return pulls[0], pulls[1]


def safe_sqrt(x: Tensor) -> Tensor:
    """Square root of x >= 0 whose gradient at zero is zero instead of infinite."""
    if is_concrete():
        root: Tensor = _SafeSqrt.apply(x)
        return root
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0).sqrt(), 0.0)


class _SafeSqrt(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        root = x.clamp_min(0).sqrt_()
        ctx.save_for_backward(root)
        return root

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        slope: Tensor = grad / (2 * root).masked_fill_(root == 0, torch.inf)
        return slope


# -- L1 distances --------------------------------------------------------------------------------------------------


def l1_distances(x: Tensor) -> Tensor:
    """``|x_i - x_j|_1`` of all rows, ``(..., n, n)``, each pair computed once: faster than torch.cdist."""
    if not is_concrete():
        return torch.cdist(x, x, p=1.0)
    each = [_upper_l1(points) for points in x.flatten(0, -3)] if x.dim() > 2 else [_upper_l1(x)]
    upper = torch.stack(each).reshape(*x.shape[:-1], x.shape[-2])
    return upper + upper.mT


def _upper_l1(x: Tensor) -> Tensor:
    n = len(x)
    i, j = torch.triu_indices(n, n, offset=1, device=x.device)
    return x.new_zeros(n * n).index_copy(0, i * n + j, torch.pdist(x, p=1.0)).view(n, n)
