"""What an approximation is: an explicit feature map shared by all views; and how one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from kvicreg.kernels.base import Kernel
from kvicreg.operators.shard import Shard
from kvicreg.options import Family, Options

__all__ = ["APPROXIMATIONS", "Approximation", "ApproximationOptions"]

APPROXIMATIONS: Family[ApproximationOptions] = Family("approximation", "kvicreg.operators")


class Approximation(nn.Module):
    """Explicit features ``Phi`` with ``k(x, y) ~ Phi(x) . Phi(y)``, so that nothing b x b is built.

    Example:
        >>> covariance_operator(torch.randn(1000, 8), "rbf", approximation=RandomFourier(features=64))
        CovarianceOperator(features, shape=(64, 64), samples=1000)
    """

    def advance(self) -> None:
        """Called once per training step, before `features`: the place for what changes from step to step."""

    def features(self, views: Sequence[Tensor] | Tensor, kernel: Kernel, shard: Shard) -> Tensor:
        """Features ``(v, b, D)`` of views ``(b, p)``, by one map for all views and processes."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ApproximationOptions(Options):
    """Settings of an approximation."""

    family: ClassVar[Family[Any]] = APPROXIMATIONS

    def build(self, seed: int) -> Approximation | None:
        """The approximation, which draws what it draws from this seed; None is exact."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ExactOptions(ApproximationOptions, name="exact"):
    """The kernel's operator as it is; there is nothing to set."""

    def build(self, seed: int) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class AutoOptions(ApproximationOptions, name="auto"):
    """Training chooses by the time of its steps (`training.approximation`); where nothing is timed it is exact."""

    def build(self, seed: int) -> None:
        return None
