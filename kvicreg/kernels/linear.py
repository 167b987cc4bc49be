"""The linear kernel."""

from __future__ import annotations

import math

from torch import Tensor

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import MatchedPairs, Pairs

__all__ = ["Linear"]


class Linear(Kernel, name="linear"):
    """``k(x, y) = gamma x.y``, with gamma = 1.

    Its feature map is the identity: the covariance operator is the Euclidean covariance matrix, and Kernel VICReg
    regularises its eigenvalues where VICReg regularises its entries. The cheapest kernel, with no bandwidth.

    Example:
        >>> Linear()(torch.eye(2))
        tensor([[1., 0.],
                [0., 1.]])
    """

    def __init__(self, gamma: float = 1.0) -> None:
        super().__init__()
        if not (math.isfinite(gamma) and gamma > 0):
            raise ValueError(f"gamma must be positive and finite, got {gamma}")
        self.gamma = float(gamma)

    def evaluate(self, pairs: Pairs) -> Tensor:
        return pairs.inner if self.gamma == 1 else pairs.inner * self.gamma

    def evaluate_distance(self, pairs: MatchedPairs) -> Tensor:
        return pairs.squared_distance * self.gamma

    def rank(self, dimension: int) -> float:
        return dimension

    def unit_value(self, dimension: int) -> float:
        return self.gamma * dimension

    def unit(self, dimension: int) -> Linear:
        return Linear(1.0 / dimension)

    def extra_repr(self) -> str:
        return "" if self.gamma == 1 else f"gamma={self.gamma:.6g}"
