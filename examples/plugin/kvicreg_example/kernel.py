"""The double exponential kernel."""

from __future__ import annotations

from torch import Tensor

from kvicreg.kernels import StationaryKernel

__all__ = ["DoubleExponential"]


class DoubleExponential(StationaryKernel, name="double_exponential"):
    """``k(x, y) = exp(exp(-gamma |x - y|_2^2) - 1)``: the exponential of the RBF kernel, 1 at equal points."""

    def profile(self, exponent: Tensor) -> Tensor:
        return exponent.exp().sub(1).exp()
