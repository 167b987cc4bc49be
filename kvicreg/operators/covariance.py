"""The centred covariance operator of a batch, ``C = 1/b sum_i (phi_i - mean)(phi_i - mean)^T``.

It has two faces with the same non-zero spectrum: the double-centred Gram matrix ``H K H / b`` (b x b), and, where
features are explicit, their covariance matrix (D x D). The operator is kept as the smaller of the two.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from kvicreg.kernels.distances import inner_products, is_symmetric, safe_sqrt, squared_length, symmetric_product
from kvicreg.kernels.tensors import at_least_float32, first_order_only, full_precision, is_concrete
from kvicreg.operators.eigenvalues import eigenvalues
from kvicreg.operators.products import hinge_sums
from kvicreg.operators.shard import Shard

__all__ = ["CovarianceOperator"]

ROUND_OFFS = 64
"""How many units in the last place of k(x, x) a centred Gram matrix's diagonal may be off, with room to spare."""


class CovarianceOperator:
    """The covariance operator of a batch in feature space; several at once with leading dimensions.

    Build it with `from_gram` or `from_features`, or from embeddings with `operators.covariance_operator`.
    Every quantity is differentiable.

    Attributes:
        samples: b, the size of the (global) batch.
        rank_bound: how many eigenvalues can be above zero: b - 1, or fewer in a smaller feature space.
        round_off: how much of the trace may be round-off: what is left of large numbers when a Gram matrix is centred.

    Example:
        >>> operator = CovarianceOperator.from_gram(torch.eye(4))
        >>> operator.trace(), operator.rank_bound
        (tensor(0.7500), 3)
    """

    def __init__(
        self,
        matrix: Tensor,
        scale: float | Tensor,
        samples: int,
        rank_bound: int,
        diagonal_squares: Tensor | None = None,
        round_off: float | Tensor = 0.0,
    ) -> None:
        self._matrix = matrix  # H K H, or the second moment of centred features; `scale` makes either into C
        self._scale = scale
        self.samples = samples
        self.rank_bound = rank_bound
        self.round_off = round_off
        self._diagonal_squares = diagonal_squares  # sum_i [HKH]_ii^2, where the matrix is not H K H

    @classmethod
    def from_gram(cls, gram: Tensor, *, rank: float = float("inf"), scale: float | Tensor = 1.0) -> CovarianceOperator:
        """From a symmetric Gram matrix ``(..., b, b)``, which is centred here; `rank` is the kernel's own bound."""
        gram = at_least_float32(gram, "gram")
        if gram.dim() < 2 or gram.shape[-1] != gram.shape[-2]:
            raise ValueError(f"gram must have shape (..., b, b), got {tuple(gram.shape)}")
        if gram.device.type == "cpu" and is_concrete() and not is_symmetric(gram):  # only where it is free to look
            raise ValueError("gram must be symmetric; this matrix and its transpose differ")
        return cls.from_symmetric(gram, rank, scale)

    @classmethod
    def from_symmetric(
        cls, gram: Tensor, rank: float, scale: float | Tensor, *, centred: bool = True
    ) -> CovarianceOperator:
        """`from_gram` for a matrix that is symmetric by the way it was made."""
        b = gram.shape[-1]
        diagonal = gram.detach().diagonal(dim1=-2, dim2=-1).mean(-1)
        round_off = diagonal.abs() * (ROUND_OFFS * torch.finfo(gram.dtype).eps * scale)
        matrix = _centred(gram) if centred else gram
        return cls(matrix, scale / b, b, int(min(b - centred, rank)), round_off=round_off)

    @classmethod
    def from_features(
        cls,
        features: Tensor,
        *,
        shard: Shard | None = None,
        rank: float = float("inf"),
        scale: float | Tensor = 1.0,
        centred: bool = True,
    ) -> CovarianceOperator:
        """From explicit features ``(..., b, D)``, this process's rows of them; they are centred here.

        `scale` multiplies the kernel, that is the squared features. Without `centred` it is the second moment, around
        zero in place of the mean.
        """
        features = at_least_float32(features, "features")
        shard = shard or Shard.of(features, gather=False)
        if not centred:
            return cls._second_moment(features, shard, rank, scale)
        # A constant shift changes no centred quantity, so no gradient needs to go through it.
        with torch.no_grad():
            mean = shard.sum(features.sum(dim=-2, keepdim=True)) / shard.total
        features = features - mean
        if features.shape[-1] >= shard.total:
            features = shard.gather(features)
            return cls.from_symmetric(inner_products(features), min(rank, features.shape[-1]), scale)
        moment, diagonal_squares = _moments(features, shard)
        bound = int(min(shard.total - 1, features.shape[-1], rank))
        return cls(shard.sum(moment), scale / shard.total, shard.total, bound, shard.sum(diagonal_squares))

    @classmethod
    def _second_moment(cls, features: Tensor, shard: Shard, rank: float, scale: float | Tensor) -> CovarianceOperator:
        if features.shape[-1] >= shard.total:
            gram = inner_products(shard.gather(features))
            return cls.from_symmetric(gram, min(rank, features.shape[-1]), scale, centred=False)
        moment = shard.sum(inner_products(features.mT))
        return cls(moment, scale / shard.total, shard.total, int(min(features.shape[-1], rank)))

    def of_view(self, view: int) -> CovarianceOperator:
        """One of several operators."""
        squares = None if self._diagonal_squares is None else self._diagonal_squares[view]
        round_off = self.round_off[view] if isinstance(self.round_off, Tensor) else self.round_off
        return CovarianceOperator(self._matrix[view], self._scale, self.samples, self.rank_bound, squares, round_off)

    @cached_property
    def _eigenvalues(self) -> Tensor:
        with full_precision(self._matrix):
            values = eigenvalues(self._matrix).flip(-1) * self._scale
        # Round-off below zero is floored in value only: a collapsing network needs the gradient that is there.
        return values + (values.detach().clamp_min(0) - values.detach())

    def eigenvalues(self) -> Tensor:
        """The variances along the principal directions, descending, ``(..., min(b, D))``; the others are zero."""
        return self._eigenvalues

    def hinge_sum(
        self, threshold: float, eps: float, count: int, scale: float | Tensor = 1.0, solver: str = "eigh"
    ) -> Tensor:
        """``sum_i [threshold - sqrt(scale * lambda_i + eps)]_+^2`` over `count` eigenvalues, missing ones being zero.

        `solver` is "eigh", which keeps the eigenvalues, or "cpu", "products" or "auto"; see `operators.products`.
        """
        floor = max(0.0, threshold - eps**0.5) ** 2  # of an eigenvalue that is zero
        side = self._matrix.shape[-1]
        if solver == "eigh" or not is_concrete():
            values = self.eigenvalues()[..., :count]
            factor = scale.unsqueeze(-1) if isinstance(scale, Tensor) else scale
            sums = (threshold - (values * factor + eps).sqrt()).clamp_min(0).square().sum(-1)
            missing = max(0, count - side)
        else:
            factor = torch.as_tensor(scale * self._scale, device=self._matrix.device)[..., None, None]
            sums, missing = hinge_sums(self._matrix * factor, threshold, eps, solver), count - side
        total: Tensor = sums + missing * floor
        return total

    @cached_property
    def _norms(self) -> tuple[Tensor, Tensor, Tensor]:
        with full_precision(self._matrix):
            trace, squares, diagonal_squares = _norms(self._matrix)
        return trace, squares, diagonal_squares if self._diagonal_squares is None else self._diagonal_squares

    def trace(self) -> Tensor:
        """The total variance, ``tr C``."""
        return self._norms[0] * self._scale

    def hs_norm(self) -> Tensor:
        """The Hilbert-Schmidt norm, ``sqrt(tr C^2)``."""
        return safe_sqrt(self._norms[1]) * self._scale

    def squared_hs_norm(self) -> Tensor:
        """``tr C^2``."""
        return self._norms[1] * self._scale**2

    def offdiagonal_hs_norm(self) -> Tensor:
        """The paper's norm: that of the centred Gram matrix without its diagonal, over b."""
        return safe_sqrt(self._offdiagonal_squares()) * self._scale

    def squared_offdiagonal_hs_norm(self) -> Tensor:
        """``(|HKH|_F^2 - sum_i [HKH]_ii^2) / b^2``."""
        return self._offdiagonal_squares() * self._scale**2

    def _offdiagonal_squares(self) -> Tensor:
        _, squares, diagonal_squares = self._norms
        return (squares - diagonal_squares).clamp_min(0)

    def effective_rank(self) -> Tensor:
        """``exp`` of the entropy of the normalised eigenvalues: 1 for one direction, at most `rank_bound`."""
        values = self.eigenvalues()
        tiny = torch.finfo(values.dtype).tiny
        shares = values / values.sum(-1, keepdim=True).clamp_min(tiny)
        return torch.exp(-(shares * shares.clamp_min(tiny).log()).sum(-1))  # no gradient is infinite at zero

    def __repr__(self) -> str:
        side = "gram" if self._diagonal_squares is None else "features"
        return f"CovarianceOperator({side}, shape={tuple(self._matrix.shape)}, samples={self.samples})"


# The functions below have written gradients: each is one or two passes over a matrix where autograd would make many.
# They are made of differentiable operations on what was given, so that second derivatives are right.


def _centred(gram: Tensor) -> Tensor:
    """``H K H`` by means instead of products."""
    centred: Tensor = _Centred.apply(gram) if is_concrete() else _double_centred(gram)
    return centred


class _Centred(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gram: Tensor) -> Tensor:
        return _double_centred(gram)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # nobody else holds this gradient: the matrix is the operator's own
        return _double_centred(grad, in_place=not torch.is_grad_enabled())


def _double_centred(matrix: Tensor, *, in_place: bool = False) -> Tensor:
    rows, columns = matrix.mean(dim=-1, keepdim=True), matrix.mean(dim=-2, keepdim=True)
    shift = rows - rows.mean(dim=-2, keepdim=True)
    return matrix.sub_(shift).sub_(columns) if in_place else (matrix - shift) - columns


def _norms(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Trace, sum of squares, and sum of squares of the diagonal, of matrices."""
    if is_concrete():
        trace, squares, diagonal_squares = _Norms.apply(matrix)
        return trace, squares, diagonal_squares
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    return diagonal.sum(-1), matrix.square().sum((-2, -1)), diagonal.square().sum(-1)


class _Norms(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(matrix)
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        return diagonal.sum(-1), squared_length(matrix.flatten(-2)), diagonal.square().sum(-1)

    @staticmethod
    def backward(ctx: Any, trace: Tensor, squares: Tensor, diagonal_squares: Tensor) -> Tensor:
        (matrix,) = ctx.saved_tensors
        grad: Tensor = matrix * (2 * squares)[..., None, None]
        diagonal = matrix.diagonal(dim1=-2, dim2=-1) * (2 * diagonal_squares).unsqueeze(-1) + trace.unsqueeze(-1)
        grad.diagonal(dim1=-2, dim2=-1).add_(diagonal)
        return grad


def _moments(features: Tensor, shard: Shard) -> tuple[Tensor, Tensor]:
    """``X^T X`` and ``sum_i |x_i|^4`` of this process's rows of features X that were centred over the global batch.

    The mean was taken for a constant. The first has no gradient through it; the second has, which is put in here:
    ``-4 mean_j |x_j|^2 x_j``.
    """
    if is_concrete() or shard.world > 1:
        moment, fourth = _Moments.apply(features, shard)
        return moment, fourth
    centred = features - features.mean(dim=-2, keepdim=True)
    return centred.mT @ centred, centred.square().sum(-1).square().sum(-1)


class _Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, shard: Shard) -> tuple[Tensor, Tensor]:
        lengths = squared_length(features)
        pull = shard.sum(lengths.unsqueeze(-2) @ features) / shard.total
        ctx.shard = shard
        ctx.save_for_backward(features, lengths, pull)
        return symmetric_product(features.mT), lengths.square().sum(-1)

    @staticmethod
    def backward(ctx: Any, moment: Tensor, fourth: Tensor) -> tuple[Tensor, None]:
        features, lengths, pull = ctx.saved_tensors
        x = features
        again = torch.is_grad_enabled()
        if again and ctx.shard.world == 1:
            x = features - features.mean(dim=-2, keepdim=True)
            lengths = x.square().sum(-1)
            pull = lengths.unsqueeze(-2) @ x / ctx.shard.total
        scale = (4 * fourth)[..., None, None]
        grad = torch.addcmul(pull * -scale, x, lengths.unsqueeze(-1) * scale)
        both = moment + moment.mT
        grad = grad.baddbmm_(x, both) if x.dim() == 3 else grad + x @ both
        if again and ctx.shard.world > 1:
            grad = first_order_only(grad, "a loss over several processes", moment, fourth, features)
        return grad, None
