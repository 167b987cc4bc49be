"""The polynomial kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.options import KernelOptions
from kvicreg.kernels.pairs import Pairs
from kvicreg.options import option

__all__ = ["Polynomial", "PolynomialOptions"]


class Polynomial(Kernel):
    """``k(x, y) = (gamma x.y + coef0)^degree``.

    Its features are the monomials of up to `degree` coordinates. Unbounded, and sensitive to `degree` and `coef0`:
    prefer degree 2 or 3.

    Args:
        degree: a positive integer.
        coef0: the weight of the lower orders, at least 0 (below it the kernel is not positive definite).
        gamma: scale of the inner product; None is 1 / p.

    Example:
        >>> Polynomial(degree=2, coef0=1.0, gamma=1.0)(torch.ones(1, 2))
        tensor([[9.]])
    """

    def __init__(self, degree: int = 2, coef0: float = 1.0, gamma: float | None = None) -> None:
        super().__init__()
        if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
            raise ValueError(f"degree must be a positive integer, got {degree!r}")
        if not (math.isfinite(coef0) and coef0 >= 0):
            raise ValueError(f"coef0 must be finite and at least 0, got {coef0}")
        if gamma is not None and not (math.isfinite(gamma) and gamma > 0):
            raise ValueError(f"gamma must be None or positive and finite, got {gamma}")
        self.degree, self.coef0, self.gamma = degree, float(coef0), gamma

    def _gamma(self, dimension: int) -> float:
        return 1.0 / dimension if self.gamma is None else self.gamma

    def evaluate(self, pairs: Pairs) -> Tensor:
        return (pairs.inner * self._gamma(pairs.dimension) + self.coef0) ** self.degree

    def rank(self, dimension: int) -> float:
        if self.coef0 > 0:
            return math.comb(dimension + self.degree, self.degree) - 1  # the constant monomial does not vary
        return math.comb(dimension + self.degree - 1, self.degree)

    def unit_value(self, dimension: int) -> float:
        return float((self._gamma(dimension) * dimension + self.coef0) ** self.degree)

    def extra_repr(self) -> str:
        gamma = "1/p" if self.gamma is None else f"{self.gamma:g}"
        return f"degree={self.degree}, coef0={self.coef0:g}, gamma={gamma}"


@dataclass(frozen=True, kw_only=True)
class PolynomialOptions(KernelOptions, name="polynomial"):
    """The settings of the polynomial kernel."""

    degree: int = option(2, "The degree of the polynomial.", at_least=1)
    coef0: float = option(1.0, "The weight of the lower orders.", at_least=0)
    gamma: float | None = option(None, "The scale of the inner product; 1 / dimension if not given.", above=0)

    def make(self) -> Polynomial:
        return Polynomial(self.degree, self.coef0, self.gamma)
