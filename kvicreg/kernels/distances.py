"""Inner products and distances of points, with written gradients: few passes over a matrix where autograd makes many.

On a CPU large temporaries cost more than the arithmetic on them, so what can be done in place is, and what is wide is
done a block of rows at a time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvicreg.kernels.tensors import is_concrete

__all__ = [
    "Gram",
    "MatchedDistances",
    "SelfDistances",
    "SelfInner",
    "TwoViewDistances",
    "TwoViewProjections",
    "is_noise",
    "origin_of",
    "safe_sqrt",
    "self_l1",
    "squared_length",
    "symmetric_product",
]

BLOCK = 256
"""Rows of a symmetric product that are computed at once; fewer where there are few, but not fewer than 128."""
ROWS = 1024
"""Rows of points that are taken at once, so that a temporary of them stays in the cache."""


def symmetric_product(x: Tensor, weights: Tensor | None = None) -> Tensor:
    """``x diag(weights) x^T`` of ``(..., n, k)`` matrices, all weights ``(..., k)`` 1 where none are given.

    On a CPU blocks on and above the diagonal are multiplied and mirrored: little more than half the work.
    """
    n, k = x.shape[-2:]
    concrete = is_concrete(x) and (weights is None or is_concrete(weights))
    if n < BLOCK or x.device.type != "cpu" or not concrete or torch.is_grad_enabled():
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
    lengths: Tensor = torch.linalg.vector_norm(x, dim=-1)
    return lengths.square()


def origin_of(x: Tensor) -> Tensor:
    """A point among the points, to measure from.

    |x|^2 + |y|^2 - 2 x.y cancels badly when points lie far from the origin and near each other, as they do when a
    network collapses. Distances do not depend on the origin, so no gradient goes through it.
    """
    return x.detach().mean(dim=-2, keepdim=True)


def is_noise(squared: Tensor, x_norm: Tensor, y_norm: Tensor) -> Tensor:
    """Where squared distances are below round-off: those points are the same."""
    largest = torch.maximum(x_norm.amax(-1), y_norm.amax(-1))
    return squared <= (8 * torch.finfo(squared.dtype).eps * largest).unsqueeze(-1).unsqueeze(-1)


def self_l1(x: Tensor) -> Tensor:
    """L1 distances of all rows ``(n, p)``, each pair computed once: several times faster than torch.cdist."""
    n = len(x)
    i, j = torch.triu_indices(n, n, offset=1, device=x.device)
    upper = x.new_zeros(n * n).index_copy(0, i * n + j, torch.pdist(x, p=1.0)).view(n, n)
    return upper + upper.mT


def safe_sqrt(x: Tensor) -> Tensor:
    """Square root of x >= 0 whose gradient at zero is zero instead of infinite."""
    root: Tensor = _SafeSqrt.apply(x)
    return root


class _SafeSqrt(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clamp_min(0).sqrt_()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (root,) = ctx.saved_tensors
        slope: Tensor = (grad / root).masked_fill_(root == 0, 0.0).mul_(0.5)
        return slope


class SelfInner(torch.autograd.Function):
    """``x x^T`` with the one matrix product its gradient needs, ``(G + G^T) x``, instead of two."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return symmetric_product(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        product: Tensor = (grad + grad.mT) @ x
        return product


class Gram(SelfInner):
    """`SelfInner` for what has a symmetric gradient, as every function of a covariance operator."""

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        product: Tensor = (grad @ x).mul_(2)
        return product


class MatchedDistances(torch.autograd.Function):
    """``|x_i - y_i|^2`` of matching rows, shape ``(..., n)``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        blocks = zip(x.split(ROWS, dim=-2), y.split(ROWS, dim=-2), strict=True)
        return torch.cat([squared_length(a - b) for a, b in blocks], dim=-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        twice = (2 * grad).unsqueeze(-1)
        pull = (x - y).mul_(twice) if is_concrete(grad) else (x - y) * twice
        return pull, -pull


class SelfDistances(torch.autograd.Function):
    """Squared distances of all rows of `x`, which should lie around the origin.

    With ``S = G + G^T``, the gradient is ``2 (diag(S 1) - S) x``: one matrix product.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        inner = symmetric_product(x)
        norm = inner.diagonal(dim1=-2, dim2=-1).clone()
        squared = inner.mul_(-2).add_(norm.unsqueeze(-1)).add_(norm.unsqueeze(-2))
        squared = squared.masked_fill_(is_noise(squared, norm, norm), 0.0)
        squared.diagonal(dim1=-2, dim2=-1).zero_()
        return squared

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        both = grad + grad.mT
        pull: Tensor = (x * both.sum(-1, keepdim=True)).sub(both @ x).mul_(2)
        return pull


class TwoViewDistances(torch.autograd.Function):
    """`SelfDistances` of two views, for a symmetric gradient, and the squared distances of their matching rows."""

    generate_vmap_rule = True

    @staticmethod
    def forward(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        origin = (origin_of(first) + origin_of(second)) / 2
        if is_concrete(first):
            x = first.new_empty(2, *first.shape)
            torch.sub(first, origin, out=x[0])
            torch.sub(second, origin, out=x[1])
        else:
            x = torch.stack([first - origin, second - origin])
        return SelfDistances.forward(x), squared_length(x[0] - x[1]), x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)  # or there would be zeros for the third output, of the size of the views
        ctx.save_for_backward(output[2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, matched_grad: Tensor | None, _: None) -> tuple[Tensor, Tensor]:
        x: Tensor = ctx.saved_tensors[0]
        twice = 0.0 if matched_grad is None else (2 * matched_grad).unsqueeze(-1)
        if grad is None or not is_concrete(grad):
            pull = (x[0] - x[1]) * twice
            pulls = torch.stack([pull, -pull])
            if grad is not None:
                pulls = pulls + 4 * (x * grad.sum(-1, keepdim=True) - grad @ x)
        else:
            pulls = torch.empty_like(x)
            torch.sub(x[0], x[1], out=pulls[0]).mul_(twice)
            torch.neg(pulls[0], out=pulls[1])
            pulls.addcmul_(x, 4 * grad.sum(-1, keepdim=True)).baddbmm_(grad, x, alpha=-4)
        return pulls[0], pulls[1]


class TwoViewProjections(torch.autograd.Function):
    """Both views times `directions` ``(p, m)``, and the squared distances of their matching rows."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, directions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(first, second, directions)
        return first @ directions, second @ directions, MatchedDistances.forward(first, second)

    @staticmethod
    def backward(
        ctx: Any, first_grad: Tensor, second_grad: Tensor, matched_grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        first, second, directions = ctx.saved_tensors
        pull = (first - second).mul_((2 * matched_grad).unsqueeze(-1))
        other = torch.addmm(pull, second_grad, directions.mT, beta=-1)
        pull.addmm_(first_grad, directions.mT)
        turn = first.mT @ first_grad + second.mT @ second_grad if ctx.needs_input_grad[2] else None
        return pull, other, turn
