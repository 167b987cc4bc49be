"""Temporary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from kvicreg import kernels, operators
from kvicreg.options import Family, Options, option


class _Kernels(Family):
    def load(self):
        return self.members

    def names(self):
        return list(kernels.NAMES) if hasattr(kernels, "NAMES") else ["rbf", "linear", "laplacian", "rq", "polynomial"]

    def read(self, name, values):
        return KernelOptions.read(values, expression=name)


KERNELS = _Kernels("kernel", "kvicreg.methods")


@dataclass(frozen=True, kw_only=True)
class KernelOptions(Options):
    family: ClassVar = KERNELS
    expression: str = option("rbf", "", argument=True)
    learn_mixture: bool = option(False, "")
    per_dimension: bool = option(False, "")
    gamma: float | None = option(None, "")
    bandwidth_momentum: float = option(0.0, "")
    bandwidth_multiple: float = option(1.0, "")
    degree: int | None = option(None, "")
    coef0: float | None = option(None, "")
    alpha: float | None = option(None, "")
    distance_norm: Literal[1, 2] | None = option(None, "")
    neighbours: int | None = option(None, "")

    @property
    def choice(self):
        return self.expression

    def build(self):
        if self.expression == "inverse_multiquadric":
            return kernels.RationalQuadratic(gamma=0.5, alpha=0.5)
        o = {
            "gamma": self.gamma,
            "degree": self.degree,
            "coef0": self.coef0,
            "alpha": self.alpha,
            "norm": self.distance_norm,
            "neighbours": self.neighbours,
        }
        if self.bandwidth_momentum or self.bandwidth_multiple != 1:
            o["gamma"] = kernels.Median(multiple=self.bandwidth_multiple, momentum=self.bandwidth_momentum)
        return kernels.make(
            self.expression,
            learnable=self.learn_mixture,
            per_dimension=self.per_dimension,
            **{k: v for k, v in o.items() if v is not None},
        )


KERNELS.members["rbf"] = KernelOptions

APPROXIMATIONS: Family = Family("approximation", "kvicreg.methods.shim")


@dataclass(frozen=True, kw_only=True)
class ApproximationOptions(Options):
    family: ClassVar = APPROXIMATIONS


@dataclass(frozen=True, kw_only=True)
class Exact(ApproximationOptions, name="exact"):
    def build(self, seed):
        return None


@dataclass(frozen=True, kw_only=True)
class Nystrom(ApproximationOptions, name="nystrom"):
    components: int = option(128, "Landmarks.", above=0)

    def build(self, seed):
        return operators.Nystrom(landmarks=self.components, seed=seed)


@dataclass(frozen=True, kw_only=True)
class Fourier(ApproximationOptions, name="random-fourier"):
    components: int = option(128, "Features.", above=1)

    def build(self, seed):
        return operators.RandomFourier(features=self.components, seed=seed)


@dataclass(frozen=True, kw_only=True)
class KernelVICRegOptions(Options):
    parametrization: Literal["scaled", "paper"] = option("scaled", "")
    invariance_weight: float | None = option(None, "", at_least=0)
    variance_weight: float | None = option(None, "", at_least=0)
    covariance_weight: float | None = option(None, "", at_least=0)
    threshold: float | None = option(None, "", at_least=0)
    eps: float = option(1e-4, "", at_least=0)
    covariance: Literal["norm", "squared"] = option("norm", "")
    include_diagonal: bool = option(False, "")
    group_weight: float = option(0.5, "")
    group_bandwidth: bool = option(False, "")

    def resolved(self):
        from kvicreg.losses import KernelVICRegLoss

        l = KernelVICRegLoss("linear", **self.flat())
        return self.replace(**{k: getattr(l, k) for k in self.flat()})


@dataclass(frozen=True, kw_only=True)
class VICRegOptions(Options):
    convention: Literal["official", "paper", "solo-learn"] = option("official", "")
    invariance_weight: float | None = option(None, "", at_least=0)
    variance_weight: float | None = option(None, "", at_least=0)
    covariance_weight: float | None = option(None, "", at_least=0)
    threshold: float = option(1.0, "", at_least=0)
    eps: float = option(1e-4, "", at_least=0)

    def resolved(self):
        from kvicreg.losses import VICRegLoss

        l = VICRegLoss(**self.flat())
        return self.replace(**{k: getattr(l, k) for k in self.flat()})
