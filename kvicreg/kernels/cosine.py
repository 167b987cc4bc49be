"""Cosines in a kernel's feature space."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvicreg.kernels.base import Kernel, NormalizedKernel
from kvicreg.kernels.linear import Linear
from kvicreg.kernels.pairs import AllPairs, MatchedPairs, Pairs, SamePoints

__all__ = ["Cosine", "unit_rows", "unit_views"]


def unit_rows(z: Tensor) -> Tensor:
    """Rows at unit length; a row of zeros stays zero, with a gradient of zero."""
    lengths = torch.linalg.vecdot(z, z).unsqueeze(-1)
    zero = lengths == 0
    return z * torch.where(zero, 0.0, torch.where(zero, 1.0, lengths).rsqrt())


def unit_views(views: Sequence[Tensor], kernel: Kernel) -> tuple[Sequence[Tensor], Kernel]:
    """Points and a kernel by which they are what `views` ``(n, p)`` are under `kernel`, at unit length.

    A kernel with ``k(x, x) = 1`` does that by itself, and the linear kernel with points at unit length.
    """
    if isinstance(kernel, Linear):
        return [unit_rows(view) for view in views], Linear()
    return views, kernel if isinstance(kernel, NormalizedKernel) else Cosine(kernel)


class Cosine(NormalizedKernel):
    """``k(x, y) / sqrt(k(x, x) k(y, y))``: the kernel whose features are those of `kernel`, brought to unit length.

    Example:
        >>> Cosine(Linear())(torch.tensor([[3.0, 0.0], [2.0, 2.0]]))
        tensor([[1.0000, 0.7071],
                [0.7071, 1.0000]])
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def resolve(self, *views: Tensor | AllPairs) -> Cosine:
        return Cosine(self.kernel.resolve(*views))

    def advance(self, *views: Tensor | AllPairs) -> None:
        self.kernel.advance(*views)

    def rank(self, dimension: int) -> float:
        return self.kernel.rank(dimension)

    def evaluate(self, pairs: Pairs) -> Tensor:
        if isinstance(pairs, SamePoints):
            return torch.ones_like(pairs.squared_distance)
        if isinstance(pairs, MatchedPairs):
            first, second = pairs.at_ends(self._inverse_length)
            return self.kernel.evaluate(pairs) * first * second
        assert isinstance(pairs, AllPairs)
        first = self._inverse_length(pairs.x)
        second = first if pairs.y is None else self._inverse_length(pairs.y)
        return self.kernel.evaluate(pairs) * first.unsqueeze(-1) * second.unsqueeze(-2)

    def _inverse_length(self, x: Tensor) -> Tensor:
        """1 / |phi(x)|; 0 at zero, with a gradient of zero."""
        squared = self.kernel.evaluate(SamePoints(x))
        zero = squared <= 0
        return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).rsqrt())
