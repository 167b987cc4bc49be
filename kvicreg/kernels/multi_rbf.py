"""The mean of RBF kernels of several bandwidths."""

from __future__ import annotations

from dataclasses import dataclass

from kvicreg.kernels.bandwidth import Gamma, Median, check_gamma
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.composite import Mixture, Sum
from kvicreg.kernels.options import LearnableOptions, StationaryOptions
from kvicreg.kernels.rbf import RBF
from kvicreg.kernels.self_tuning import MULTIPLES

__all__ = ["MultiRBFOptions", "multi_rbf"]


def multi_rbf(gamma: Gamma = "mean") -> Sum:
    """The mean of five RBF kernels of 1/4, 1/2, 1, 2 and 4 times the bandwidth: structure at several scales.

    Example:
        >>> len(multi_rbf().members())
        5
    """
    rule = check_gamma(gamma)

    def scaled(multiple: float) -> RBF:
        if isinstance(rule, Median):
            return RBF(rule.times(multiple))
        return RBF(rule / multiple)

    return Sum([scaled(multiple) for multiple in MULTIPLES], [1 / len(MULTIPLES)] * len(MULTIPLES))


@dataclass(frozen=True, kw_only=True)
class MultiRBFOptions(LearnableOptions, StationaryOptions, name="multi_rbf"):
    """The settings of the mean of RBF kernels."""

    def make(self) -> Kernel:
        mean = multi_rbf(self.scale())
        return Mixture([kernel for _, kernel in mean.members()], learnable=True) if self.learn_mixture else mean
