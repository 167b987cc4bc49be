"""The Gaussian (RBF) kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from kvicreg.kernels.exponential import ExponentialKernel

__all__ = ["RBF"]


class RBF(ExponentialKernel, name="rbf"):
    """``k(x, y) = exp(-gamma |x - y|_2^2)``.

    Universal, bounded by 1 and smooth: the default. Its spectrum decays fast, so it favours coarse structure and
    forgives noise.

    Args:
        gamma: a positive number, "mean" (``1 / mean |x_i - x_j|^2``), "median", "smoothed" or a `kernels.Median`.

    Example:
        >>> RBF(gamma=1.0)(torch.tensor([[0.0], [1.0]]))
        tensor([[1.0000, 0.3679],
                [0.3679, 1.0000]])
    """

    def spectral_noise(self, count: int, dimension: int, generator: torch.Generator) -> Tensor:
        return torch.randn(count, dimension, generator=generator)

    def frequencies(self, noise: Tensor) -> Tensor:
        return noise * (2 * self._scale()) ** 0.5
