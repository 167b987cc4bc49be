"""The centred covariance operator of a batch, ``C = 1/b sum_i (phi_i - mean)(phi_i - mean)^T``.

It has two faces with the same non-zero spectrum: the double-centred Gram matrix ``H K H / b`` (b x b), and, where
features are explicit, their covariance matrix (D x D). The operator is kept as the smaller of the two.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from kvicreg.kernels.distances import Gram, safe_sqrt, squared_length, symmetric_product
from kvicreg.kernels.tensors import at_least_float32, full_precision, is_concrete
from kvicreg.operators.eigenvalues import eigenvalues
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
        """From a Gram matrix ``(..., b, b)``, which is centred here; `rank` is the kernel's own bound."""
        if gram.dim() < 2 or gram.shape[-1] != gram.shape[-2]:
            raise ValueError(f"gram must have shape (..., b, b), got {tuple(gram.shape)}")
        gram, b = at_least_float32(gram, "gram"), gram.shape[-1]
        own = gram.detach().diagonal(dim1=-2, dim2=-1).mean(-1)
        round_off = own.abs() * (ROUND_OFFS * torch.finfo(gram.dtype).eps * scale)
        return cls(_Centre.apply(gram), scale / b, b, int(min(b - 1, rank)), round_off=round_off)

    @classmethod
    def from_features(
        cls, features: Tensor, *, shard: Shard | None = None, rank: float = float("inf"), scale: float | Tensor = 1.0
    ) -> CovarianceOperator:
        """From explicit features ``(..., b, D)``, this process's rows of them; they are centred here.

        `scale` multiplies the kernel, that is the squared features.
        """
        features = at_least_float32(features, "features")
        shard = shard or Shard.of(features, gather=False)
        # A constant shift changes no centred quantity, so no gradient needs to go through it.
        with torch.no_grad():
            mean = shard.sum(features.sum(dim=-2, keepdim=True)) / shard.total
        features = features - mean
        if features.shape[-1] >= shard.total:
            features = shard.gather(features)
            return cls.from_gram(Gram.apply(features), rank=min(rank, features.shape[-1]), scale=scale)
        moment, diagonal_squares, _, _ = _Moments.apply(features, shard)
        bound = int(min(shard.total - 1, features.shape[-1], rank))
        return cls(shard.sum(moment), scale / shard.total, shard.total, bound, shard.sum(diagonal_squares))

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

    @cached_property
    def _norms(self) -> tuple[Tensor, Tensor, Tensor]:
        with full_precision(self._matrix):
            trace, squares, diagonal_squares = _Norms.apply(self._matrix)
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
        shares = values / values.sum(-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
        return torch.exp(-torch.special.xlogy(shares, shares).sum(-1))

    def __repr__(self) -> str:
        side = "gram" if self._diagonal_squares is None else "features"
        return f"CovarianceOperator({side}, shape={tuple(self._matrix.shape)}, samples={self.samples})"


# The functions below have written gradients: each is one or two passes over a matrix where autograd would make many.


class _Centre(torch.autograd.Function):
    """``H K H`` of symmetric K, and ``H G H`` for its symmetric gradient, by means instead of products."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gram: Tensor) -> Tensor:
        return _double_centred(gram)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        # nobody else holds this gradient: the matrix is the operator's own
        return _double_centred(grad, in_place=is_concrete(grad) and not torch.is_grad_enabled())


def _double_centred(matrix: Tensor, *, in_place: bool = False) -> Tensor:
    mean = matrix.mean(dim=-1, keepdim=True)
    shift = mean - mean.mean(dim=-2, keepdim=True) / 2
    return (matrix.sub_(shift) if in_place else matrix - shift).sub_(shift.mT)


class _Norms(torch.autograd.Function):
    """Trace, sum of squares, and sum of squares of the diagonal, of symmetric matrices."""

    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        return diagonal.sum(-1), squared_length(matrix.flatten(-2)), diagonal.square().sum(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, trace: Tensor, squares: Tensor, diagonal_squares: Tensor) -> Tensor:
        (matrix,) = ctx.saved_tensors
        grad: Tensor = matrix * (2 * squares)[..., None, None]
        diagonal = matrix.diagonal(dim1=-2, dim2=-1) * (2 * diagonal_squares).unsqueeze(-1) + trace.unsqueeze(-1)
        grad.diagonal(dim1=-2, dim2=-1).add_(diagonal)
        return grad


class _Moments(torch.autograd.Function):
    """``X^T X`` and ``sum_i |x_i|^4`` of features X centred over the global batch, as if centred here.

    The first has no gradient through the mean; that through the mean in the second is ``-4 mean_j |x_j|^2 x_j``.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(features: Tensor, shard: Shard) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        lengths = squared_length(features)
        pull = shard.sum(lengths.unsqueeze(-2) @ features) / shard.total
        return symmetric_product(features.mT), lengths.square().sum(-1), lengths, pull

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Shard], output: tuple[Tensor, ...]) -> None:
        _, _, lengths, pull = output
        ctx.mark_non_differentiable(lengths, pull)
        ctx.save_for_backward(inputs[0], lengths, pull)

    @staticmethod
    def backward(ctx: Any, moment: Tensor, fourth: Tensor, *_: Tensor) -> tuple[Tensor, None]:
        features, lengths, pull = ctx.saved_tensors
        scale = (4 * fourth)[..., None, None]
        through_diagonal = torch.addcmul(pull * -scale, features, lengths.unsqueeze(-1) * scale)
        if features.dim() == 3 and is_concrete(features):
            return through_diagonal.baddbmm_(features, moment + moment.mT), None
        return features @ (moment + moment.mT) + through_diagonal, None
