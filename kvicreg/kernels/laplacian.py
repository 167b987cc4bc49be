"""The Laplacian kernel, of the Euclidean or the L1 distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from kvicreg.kernels.bandwidth import Gamma
from kvicreg.kernels.exponential import ExponentialKernel
from kvicreg.kernels.options import StationaryOptions
from kvicreg.kernels.pairs import Pairs
from kvicreg.options import option

__all__ = ["Laplacian", "LaplacianOptions"]


class Laplacian(ExponentialKernel):
    """``k(x, y) = exp(-gamma |x - y|_norm)``.

    Universal and bounded by 1, with a slowly decaying spectrum: it favours sharp, local structure. With norm=2 it
    costs what RBF costs; norm=1 is scikit-learn's, can't use a matrix product and is several times slower.

    Args:
        gamma: a positive number, "mean" (``1 / mean |x_i - x_j|``), "median", "smoothed" or a `kernels.Median`.
        norm: 2 or 1.

    Example:
        >>> Laplacian(gamma=1.0)(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))
        tensor([[1.0000, 0.0067],
                [0.0067, 1.0000]])
    """

    power = 1

    def __init__(self, gamma: Gamma = "mean", norm: Literal[1, 2] = 2) -> None:
        super().__init__(gamma)
        if norm not in (1, 2):
            raise ValueError(f"norm must be 1 or 2, got {norm!r}")
        self.norm: Literal[1, 2] = norm
        self.rotation_invariant = norm == 2

    def distance(self, pairs: Pairs) -> Tensor:
        return pairs.distance if self.norm == 2 else pairs.l1_distance

    def spectral_noise(self, count: int, dimension: int, generator: torch.Generator) -> Tensor:
        # norm 2: multivariate Cauchy, a Gaussian over the size of another; norm 1: a Cauchy per coordinate
        gaussian = torch.randn(count, dimension, generator=generator)
        other = torch.randn(count, 1 if self.norm == 2 else dimension, generator=generator)
        return gaussian / other.abs().clamp_min(torch.finfo(other.dtype).tiny)

    def spectral_key(self) -> tuple[Any, ...]:
        return ("Laplacian", self.norm)

    def frequencies(self, noise: Tensor) -> Tensor:
        return noise * self._scale()


@dataclass(frozen=True, kw_only=True)
class LaplacianOptions(StationaryOptions, name="laplacian"):
    """The settings of the Laplacian kernel."""

    distance_norm: Literal[1, 2] = option(2, "The norm of the distance: 2, or 1, which is several times slower.")

    def make(self) -> Laplacian:
        return Laplacian(self.scale(), norm=self.distance_norm)
