"""The inverse multiquadric kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from kvicreg.kernels.bandwidth import Gamma
from kvicreg.kernels.base import StationaryKernel
from kvicreg.kernels.options import StationaryOptions
from kvicreg.kernels.rational_quadratic import RationalQuadratic
from kvicreg.options import option

__all__ = ["InverseMultiquadric"]


class InverseMultiquadric(StationaryKernel):
    """``k(x, y) = 1 / sqrt(1 + gamma |x - y|_2^2)``.

    Bounded by 1, with heavy tails: the rational quadratic kernel with alpha 1/2 and half of its gamma. Of embeddings at
    unit length, with gamma 1, it is the kernel of SSL-HSIC.

    Args:
        gamma: a positive number, "mean" (``1 / mean |x_i - x_j|^2``), "median", "smoothed" or a `kernels.Median`.

    Example:
        >>> InverseMultiquadric(gamma=3.0)(torch.tensor([[0.0], [1.0]]))
        tensor([[1.0000, 0.5000],
                [0.5000, 1.0000]])
    """

    def __init__(self, gamma: Gamma = 1.0) -> None:
        super().__init__(gamma)

    def profile(self, exponent: Tensor) -> Tensor:
        return torch.rsqrt(1 - exponent)

    def chain(self, grad: Tensor, value: Tensor) -> Tensor:
        return grad * value**3 / 2

    def spectral_noise(self, count: int, dimension: int, generator: torch.Generator) -> Tensor:
        return RationalQuadratic(alpha=0.5).spectral_noise(count, dimension, generator)

    def frequencies(self, noise: Tensor) -> Tensor:
        return noise * self._scale() ** 0.5


@dataclass(frozen=True, kw_only=True)
class InverseMultiquadricOptions(StationaryOptions, name="inverse_multiquadric"):
    """The settings of the inverse multiquadric kernel, whose scale is 1 unless another is chosen."""

    bandwidth: Literal["unit", "median", "mean"] = option(  # type: ignore[assignment]
        "unit", "A scale of 1, or the rule of the bandwidth, as of other kernels."
    )

    def make(self) -> InverseMultiquadric:
        is_default = replace(self, per_dimension=False) == type(self)()
        return InverseMultiquadric(1.0 if is_default else self.scale())
