"""The rational quadratic kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kvicreg.kernels.bandwidth import Gamma
from kvicreg.kernels.base import StationaryKernel
from kvicreg.kernels.options import StationaryOptions
from kvicreg.kernels.pairs import MatchedPairs
from kvicreg.options import option

__all__ = ["RationalQuadratic", "RationalQuadraticOptions"]


class RationalQuadratic(StationaryKernel):
    """``k(x, y) = (1 + gamma |x - y|_2^2 / alpha)^(-alpha)``.

    A mixture of RBF kernels of all scales, bounded by 1: between RBF (alpha to infinity) and heavy tails (small
    alpha), for data with structure at several scales.

    Args:
        gamma: a positive number, "mean" (``1 / mean |x_i - x_j|^2``), "median", "smoothed" or a `kernels.Median`.
        alpha: how the scales are weighted, positive.

    Example:
        >>> RationalQuadratic(gamma=1.0, alpha=1.0)(torch.tensor([[0.0], [1.0]]))
        tensor([[1.0000, 0.5000],
                [0.5000, 1.0000]])
    """

    def __init__(self, gamma: Gamma = "mean", alpha: float = 1.0) -> None:
        super().__init__(gamma)
        if not (math.isfinite(alpha) and alpha > 0):
            raise ValueError(f"alpha must be positive and finite, got {alpha}")
        self.alpha = float(alpha)

    def profile(self, exponent: Tensor) -> Tensor:
        if self.alpha == 1:
            return exponent.neg_().add_(1).reciprocal_()
        return exponent.div_(-self.alpha).log1p_().mul_(-self.alpha).exp_()

    def chain(self, grad: Tensor, value: Tensor) -> Tensor:
        return (grad * value).mul_(value) if self.alpha == 1 else grad * value ** (1 + 1 / self.alpha)

    def evaluate_distance(self, pairs: MatchedPairs) -> Tensor:
        scaled = self.distance(pairs) * self._scale()
        return -2 * torch.expm1(torch.log1p(scaled / self.alpha) * -self.alpha)

    def spectral_noise(self, count: int, dimension: int, generator: torch.Generator) -> Tensor:
        # an RBF whose gamma is multiplied by a draw of Gamma(alpha, rate alpha)
        gaussian = torch.randn(count, dimension, generator=generator)
        return gaussian * _standard_gamma(self.alpha, count, generator).div(self.alpha).sqrt().unsqueeze(-1)

    def spectral_key(self) -> tuple[Any, ...]:
        return ("RationalQuadratic", self.alpha)

    def frequencies(self, noise: Tensor) -> Tensor:
        return noise * (2 * self._scale()) ** 0.5


def _standard_gamma(shape: float, count: int, generator: torch.Generator) -> Tensor:
    """`count` draws of Gamma(shape, 1) from the caller's generator (float32)."""
    draws: Tensor = torch._standard_gamma(torch.full((count,), shape), generator=generator)
    return draws


@dataclass(frozen=True, kw_only=True)
class RationalQuadraticOptions(StationaryOptions, name="rational_quadratic"):
    """The settings of the rational quadratic kernel."""

    alpha: float = option(1.0, "How the scales are weighted: heavy tails when small, RBF when large.", above=0)

    def make(self) -> RationalQuadratic:
        return RationalQuadratic(self.scale(), alpha=self.alpha)


@dataclass(frozen=True, kw_only=True)
class RQOptions(RationalQuadraticOptions, name="rq"):
    """The same under its short name."""
