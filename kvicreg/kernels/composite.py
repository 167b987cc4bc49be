"""Sums, products and mixtures of kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import AllPairs, MatchedPairs, Pairs

__all__ = ["Mixture", "Product", "Sum"]


class Sum(Kernel):
    """``k = sum_m w_m k_m`` with non-negative weights, 1 each unless given: what ``0.5 * RBF() + Linear()`` makes.

    Its feature space is the direct sum of its members'.

    Example:
        >>> (0.5 * RBF(gamma=1.0) + Laplacian(gamma=1.0))(torch.tensor([[0.0], [1.0]]))
        tensor([[1.5000, 0.5518],
                [0.5518, 1.5000]])
    """

    def __init__(self, kernels: Sequence[Kernel], weights: Sequence[float | Tensor] | Tensor | None = None) -> None:
        super().__init__()
        if not kernels or not all(isinstance(k, Kernel) for k in kernels):
            raise TypeError("kernels must be a non-empty sequence of Kernel objects")
        values: list[float | Tensor] = [1.0] * len(kernels) if weights is None else list(weights)
        if len(values) != len(kernels):
            raise ValueError(f"weights must have one entry per kernel ({len(kernels)}), got {len(values)}")
        for value in values:
            if not isinstance(value, Tensor) and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"weights must be finite and at least 0, got {value}")
        # a sum of sums is one sum: shares are taken once, whatever the brackets
        members: list[tuple[float | Tensor, Kernel]] = []
        for value, kernel in zip(values, kernels, strict=True):
            nested = kernel.members() if type(kernel) is Sum else [(1.0, kernel)]
            members += [(value * inner, k) for inner, k in nested]
        self.kernels = nn.ModuleList([k for _, k in members])
        self._weights = [w for w, _ in members]

    @property
    def weights(self) -> list[float | Tensor]:
        """One weight per member."""
        return self._weights

    def members(self) -> list[tuple[float | Tensor, Kernel]]:
        """``(weight, kernel)`` of each member."""
        return [(w, k) for w, k in zip(self.weights, self.kernels, strict=True) if isinstance(k, Kernel)]

    def _numbers(self) -> list[float]:
        return [float(w.detach() if isinstance(w, Tensor) else w) for w in self.weights]

    def evaluate(self, pairs: Pairs) -> Tensor:
        total: Tensor = _total([k.evaluate(pairs) * w for w, k in self.members()])
        return total

    def evaluate_distance(self, pairs: MatchedPairs) -> Tensor:
        total: Tensor = _total([k.evaluate_distance(pairs) * w for w, k in self.members()])
        return total

    def resolve(self, *views: Tensor | AllPairs) -> Sum:
        views = _share(views)
        return Sum([k.resolve(*views) for _, k in self.members()], self.weights)

    def advance(self, *views: Tensor | AllPairs) -> None:
        views = _share(views)
        for _, member in self.members():
            member.advance(*views)

    @property
    def bound(self) -> float:
        return sum(w * k.bound for w, (_, k) in zip(self._numbers(), self.members(), strict=True) if w > 0)

    def rank(self, dimension: int) -> float:
        return sum(k.rank(dimension) for _, k in self.members())

    def unit_value(self, dimension: int) -> float | Tensor:
        total: float | Tensor = _total([w * k.unit_value(dimension) for w, k in self.members()])
        return total

    def unit(self, dimension: int) -> Sum:
        """Every member at its own unit scale, the weights shared out to 1: no member drowns another by its units."""
        weights = self.weights
        return Sum([k.unit(dimension) for _, k in self.members()], [w / _total(weights) for w in weights])

    def spectral_noise(self, count: int, dimension: int, generator: torch.Generator) -> tuple[Any, ...]:
        raise ValueError("a sum inside a product has no random Fourier features: multiply it out, or use Nystrom")

    def extra_repr(self) -> str:
        return "weights=[" + ", ".join(f"{w:.4g}" for w in self._numbers()) + "]"


class Mixture(Sum):
    """``k = sum_m w_m k_m`` with weights on the simplex: ``w_m >= 0``, ``sum_m w_m = 1``.

    Args:
        kernels: the members.
        weights: their shares, scaled to sum to 1; equal when None.
        learnable: learn the shares with the network, as the softmax of `logits`, started at `weights`.

    Example:
        >>> Mixture([RBF(gamma=0.1), RBF(gamma=1.0)]).weights
        [0.5, 0.5]
    """

    def __init__(
        self, kernels: Sequence[Kernel], weights: Sequence[float] | None = None, learnable: bool = False
    ) -> None:
        super().__init__(kernels, weights)
        total = sum(float(w) for w in self._weights)
        if total <= 0:
            raise ValueError("weights must not all be 0")
        self._weights = [float(w) / total for w in self._weights]
        self.logits: nn.Parameter | None = None
        if learnable:
            if min(self._weights) == 0:
                raise ValueError("a learnable mixture can't start with a weight of 0: it would have no gradient")
            self.logits = nn.Parameter(torch.tensor(self._weights).log())

    @property
    def weights(self) -> list[float | Tensor]:
        if self.logits is None:
            return self._weights
        return list(self.logits.softmax(0).unbind())


class Product(Kernel):
    """``k = prod_m k_m``: what ``RBF() * Linear()`` makes. Its feature space is the tensor product of its members'.

    Example:
        >>> (RBF(gamma=1.0) * Laplacian(gamma=1.0))(torch.tensor([[0.0], [1.0]]))
        tensor([[1.0000, 0.1353],
                [0.1353, 1.0000]])
    """

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        super().__init__()
        if not kernels or not all(isinstance(k, Kernel) for k in kernels):
            raise TypeError("kernels must be a non-empty sequence of Kernel objects")
        self.kernels = nn.ModuleList(kernels)
        self.rotation_invariant = all(k.rotation_invariant for k in kernels)

    def members(self) -> list[Kernel]:
        """The factors."""
        return [k for k in self.kernels if isinstance(k, Kernel)]

    def evaluate(self, pairs: Pairs) -> Tensor:
        return math.prod((k.evaluate(pairs) for k in self.members()[1:]), start=self.members()[0].evaluate(pairs))

    def resolve(self, *views: Tensor | AllPairs) -> Product:
        views = _share(views)
        return Product([k.resolve(*views) for k in self.members()])

    def advance(self, *views: Tensor | AllPairs) -> None:
        views = _share(views)
        for member in self.members():
            member.advance(*views)

    @property
    def bound(self) -> float:
        return math.prod(k.bound for k in self.members())

    def rank(self, dimension: int) -> float:
        # a member's constant feature does not vary by itself but does as a factor: hence the + 1
        return math.prod(k.rank(dimension) + 1 for k in self.members())

    def unit_value(self, dimension: int) -> float | Tensor:
        values = [k.unit_value(dimension) for k in self.members()]
        return math.prod(values[1:], start=values[0])

    def unit(self, dimension: int) -> Product:
        return Product([k.unit(dimension) for k in self.members()])

    def spectral_noise(self, count: int, dimension: int, generator: torch.Generator) -> tuple[Any, ...]:
        return tuple(k.spectral_noise(count, dimension, generator) for k in self.members())

    def spectral_key(self) -> tuple[Any, ...]:
        return ("Product", *(k.spectral_key() for k in self.members()))

    def frequencies(self, noise: tuple[Any, ...]) -> Tensor:
        # the density of a product of kernels is the convolution of theirs: frequencies add
        return torch.stack([k.frequencies(n) for k, n in zip(self.members(), noise, strict=True)]).sum(0)


def _share(views: tuple[Tensor | AllPairs, ...]) -> tuple[Tensor | AllPairs, ...]:
    """One geometry for all members, so that they share their distance matrices."""
    return tuple(AllPairs.of(view) for view in views)


def _total(values: Sequence[Any]) -> Any:
    return sum(values[1:], start=values[0])
