"""Kernels that fall off exponentially with a distance."""

from __future__ import annotations

import torch
from torch import Tensor

from kvicreg.kernels.base import StationaryKernel
from kvicreg.kernels.pairs import MatchedPairs

__all__ = ["ExponentialKernel"]


class ExponentialKernel(StationaryKernel):
    """``k = exp(-gamma * distance)``; which distance, the kernel says."""

    def profile(self, exponent: Tensor) -> Tensor:
        return exponent.exp_()

    def chain(self, grad: Tensor, value: Tensor) -> Tensor:
        return grad * value

    def evaluate_distance(self, pairs: MatchedPairs) -> Tensor:
        return -2 * torch.expm1(self.distance(pairs) * -self._scale())
