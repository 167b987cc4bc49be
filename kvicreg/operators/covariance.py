"""The centred covariance operator of a batch, ``C = 1/b sum_i (phi_i - mean)(phi_i - mean)^T``.

It has two faces with the same non-zero spectrum: the double-centred Gram matrix ``H K H / b`` (b x b), and, where
features are explicit, their covariance matrix (D x D). The operator is kept as the smaller of the two.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from kvicreg.kernels.pairs import SelfInner, safe_sqrt
from kvicreg.operators.eigenvalues import eigenvalues
from kvicreg.operators.shard import Shard

__all__ = ["CovarianceOperator"]


class CovarianceOperator:
    """The covariance operator of a batch in feature space; several at once with leading dimensions.

    Build it with `from_gram` or `from_features`, or from embeddings with `operators.covariance_operator`.
    Every quantity is differentiable.

    Attributes:
        samples: b, the size of the (global) batch.
        rank_bound: how many eigenvalues can be above zero: b - 1, or fewer in a smaller feature space.
    """

    def __init__(self, matrix: Tensor, scale: float, samples: int, rank_bound: int) -> None:
        self._matrix = matrix
        self._scale = scale
        self.samples = samples
        self.rank_bound = rank_bound
        self._features: tuple[Tensor, Shard] | None = None

    @classmethod
    def from_gram(cls, gram: Tensor, *, rank: float = float("inf"), scale: float = 1.0) -> CovarianceOperator:
        """From a Gram matrix ``(..., b, b)``, which is centred here; `rank` is the kernel's own bound."""
        if gram.dim() < 2 or gram.shape[-1] != gram.shape[-2]:
            raise ValueError(f"gram must have shape (..., b, b), got {tuple(gram.shape)}")
        b = gram.shape[-1]
        mean = gram.mean(dim=-1, keepdim=True)
        shift = mean - mean.mean(dim=-2, keepdim=True) / 2
        return cls(gram - shift - shift.mT, scale / b, b, int(min(b - 1, rank)))

    @classmethod
    def from_features(
        cls, features: Tensor, *, shard: Shard | None = None, rank: float = float("inf"), scale: float = 1.0
    ) -> CovarianceOperator:
        """From explicit features ``(..., b, D)``, this process's rows of them; they are centred here.

        `scale` multiplies the kernel, that is the squared features.
        """
        shard = shard or Shard.of(features, gather=False)
        # A constant shift changes no centred quantity, so no gradient needs to go through it.
        with torch.no_grad():
            mean = shard.sum(features.sum(dim=-2, keepdim=True)) / shard.total
        features = features - mean
        if features.shape[-1] >= shard.total:
            features = shard.gather(features)
            return cls.from_gram(SelfInner.apply(features), rank=min(rank, features.shape[-1]), scale=scale)
        moment = shard.sum(_Moment.apply(features))
        bound = int(min(shard.total - 1, features.shape[-1], rank))
        operator = cls(moment, scale / shard.total, shard.total, bound)
        operator._features = (features, shard)
        return operator

    @cached_property
    def _eigenvalues(self) -> Tensor:
        values = eigenvalues(self._matrix).flip(-1) * self._scale
        # Round-off below zero is floored in value only: a collapsing network needs the gradient that is there.
        return values + (values.detach().clamp_min(0) - values.detach())

    def eigenvalues(self) -> Tensor:
        """The variances along the principal directions, descending, ``(..., min(b, D))``; the others are zero."""
        return self._eigenvalues

    def trace(self) -> Tensor:
        """The total variance, ``tr C``."""
        return self._matrix.diagonal(dim1=-2, dim2=-1).sum(-1) * self._scale

    def hs_norm(self) -> Tensor:
        """The Hilbert-Schmidt norm, ``sqrt(tr C^2)``."""
        return safe_sqrt(self.squared_hs_norm())

    def squared_hs_norm(self) -> Tensor:
        """``tr C^2``."""
        return self._matrix.square().sum(dim=(-2, -1)) * self._scale**2

    def offdiagonal_hs_norm(self) -> Tensor:
        """The paper's norm: that of the centred Gram matrix without its diagonal, over b."""
        return safe_sqrt(self.squared_offdiagonal_hs_norm())

    def squared_offdiagonal_hs_norm(self) -> Tensor:
        """``(|HKH|_F^2 - sum_i [HKH]_ii^2) / b^2``."""
        if self._features is None:
            diagonal = self._matrix.diagonal(dim1=-2, dim2=-1)
            squares = diagonal.square().sum(-1)
        else:
            features, shard = self._features
            mean = shard.sum(features.sum(dim=-2, keepdim=True)) / shard.total
            squares = shard.sum((features - mean).square().sum(-1).square().sum(-1))
        return (self._matrix.square().sum(dim=(-2, -1)) - squares).clamp_min(0) * self._scale**2

    def effective_rank(self) -> Tensor:
        """``exp`` of the entropy of the normalised eigenvalues: 1 for one direction, at most `rank_bound`."""
        values = self.eigenvalues()
        shares = values / values.sum(-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
        return torch.exp(-torch.special.xlogy(shares, shares).sum(-1))

    def __repr__(self) -> str:
        side = "features" if self._features else "gram"
        return f"CovarianceOperator({side}, shape={tuple(self._matrix.shape)}, samples={self.samples})"


class _Moment(torch.autograd.Function):
    """``x^T x`` with the one matrix product its gradient needs, ``x (G + G^T)``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.mT @ x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        product: Tensor = x @ (grad + grad.mT)
        return product
