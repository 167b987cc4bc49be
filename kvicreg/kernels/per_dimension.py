"""Any kernel with a scale for each dimension of the embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import AllPairs, MatchedPairs, Pairs, SamePoints

__all__ = ["PerDimension"]

P = TypeVar("P", bound=Pairs)


class PerDimension(Kernel):
    """``k(x, y) = k'(x / s, y / s)`` with s_d the standard deviation of coordinate d over that of a typical one.

    Automatic relevance by the data: every coordinate counts alike, whatever its units. The overall scale is left as it
    is, so that the loss still sees embeddings shrink. As a pullback of k' it is positive definite for any s. No
    gradient flows through s.

    Args:
        kernel: k'.
        floor: the smallest s_d that is believed, so that a coordinate that hardly varies is not blown up.

    Example:
        >>> x = torch.randn(64, 2) * torch.tensor([1.0, 4.0])
        >>> PerDimension(Linear()).resolve(x).scales.shape
        torch.Size([2])
    """

    def __init__(self, kernel: Kernel, floor: float = 0.1) -> None:
        super().__init__()
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel must be a kernels.Kernel, got {type(kernel).__name__}")
        if not (math.isfinite(floor) and floor > 0):
            raise ValueError(f"floor must be positive and finite, got {floor}")
        self.kernel, self.floor = kernel, floor
        self.rotation_invariant = False
        self.scales: Tensor | None = None
        self._resolved_for: tuple[AllPairs, AllPairs] | None = None

    def resolve(self, *views: Tensor | AllPairs) -> PerDimension:
        if self.scales is not None:
            return self
        pairs = [AllPairs.of(view) for view in views]
        resolved = PerDimension(self.kernel, self.floor)
        resolved.scales = self._scales(pairs)
        scaled = [view.divided(resolved.scales) for view in pairs]
        resolved.kernel = self.kernel.resolve(*scaled)
        resolved._resolved_for = (pairs[0], scaled[0])
        return resolved

    def advance(self, *views: Tensor | AllPairs) -> None:
        pairs = [AllPairs.of(view) for view in views]
        scales = self._scales(pairs)
        self.kernel.advance(*(view.divided(scales) for view in pairs))

    @torch.no_grad()
    def _scales(self, views: Sequence[AllPairs]) -> Tensor:
        """The scale of each coordinate ``(p,)``, from all views together."""
        variance = torch.cat([view.x.detach().flatten(0, -2) for view in views]).var(0, correction=0)
        typical = variance.mean().clamp_min(torch.finfo(variance.dtype).tiny)
        return (variance / typical).sqrt().clamp_min(self.floor)

    def _scaled(self, pairs: P) -> P:
        if self.scales is None:
            raise ValueError("this kernel's scales are not fixed yet: call kernel.resolve(views) first")
        if self._resolved_for is not None and pairs is self._resolved_for[0]:
            return cast(P, self._resolved_for[1])  # its distances are those that the bandwidth is of
        return pairs.divided(self.scales)

    def diagonal(self, x: Tensor) -> Tensor:
        return self.resolve(x).evaluate(SamePoints(x))

    def evaluate(self, pairs: Pairs) -> Tensor:
        return self.kernel.evaluate(self._scaled(pairs))

    def evaluate_distance(self, pairs: MatchedPairs) -> Tensor:
        return self.kernel.evaluate_distance(self._scaled(pairs))

    @property
    def gamma(self) -> Any:
        """The inner kernel's scale, where it has one."""
        return getattr(self.kernel, "gamma", None)

    @property
    def bound(self) -> float:
        return self.kernel.bound

    def rank(self, dimension: int) -> float:
        return self.kernel.rank(dimension)

    def unit_value(self, dimension: int) -> float | Tensor:
        return self.kernel.unit_value(dimension)

    def unit(self, dimension: int) -> PerDimension:
        unit = PerDimension(self.kernel.unit(dimension), self.floor)
        unit.scales = self.scales
        return unit

    def spectral_noise(self, count: int, dimension: int, generator: torch.Generator) -> Tensor | tuple[Any, ...]:
        return self.kernel.spectral_noise(count, dimension, generator)

    def spectral_key(self) -> tuple[Any, ...]:
        return ("PerDimension", *self.kernel.spectral_key())

    def frequencies(self, noise: Any) -> Tensor:
        assert self.scales is not None
        frequencies = self.kernel.frequencies(noise)
        return frequencies / self.scales.to(frequencies)
