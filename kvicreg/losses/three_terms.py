"""The settings of Kernel VICReg, and its three terms as functions of covariance operators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from torch import Tensor

from kvicreg.losses.terms import LossTerms, weights_or
from kvicreg.operators import CovarianceOperator
from kvicreg.options import Options, option

__all__ = ["KernelVICRegOptions", "shared_terms", "three_terms"]

Parametrization = Literal["scaled", "paper"]
CovarianceForm = Literal["norm", "squared"]
MixtureRule = Literal["pairs", "loss"]
Spectrum = Literal["per-view", "shared"]
SolverChoice = Literal["eigh", "cpu", "products", "auto"]

DEFAULT_WEIGHTS: dict[str, tuple[float, float, float]] = {
    "scaled": (1.0, 1.0, 0.02),
    "shared": (2.0, 1.0, 0.02),
    "paper": (0.5, 1.0, 2.0),
}
"""(invariance, variance, covariance): ours, with a shared spectrum, and what the paper uses most on natural images."""
DEFAULT_THRESHOLD: dict[str, float] = {"scaled": 1.5, "paper": 1.0}


@dataclass(frozen=True, kw_only=True)
class KernelVICRegOptions(Options):
    """The settings of Kernel VICReg; see `KernelVICRegLoss`."""

    parametrization: Parametrization = option("scaled", "Terms in units of the total variance, or the paper's.")
    invariance_weight: float | None = option(None, "Weight of the invariance term.", at_least=0)
    variance_weight: float | None = option(None, "Weight of the variance term.", at_least=0)
    covariance_weight: float | None = option(None, "Weight of the covariance term.", at_least=0)
    threshold: float | None = option(None, "The standard deviation that the variance term asks for.", at_least=0)
    eps: float = option(1e-4, "Added to variances under the root.", at_least=0)
    covariance: CovarianceForm = option("norm", "The Hilbert-Schmidt norm, or its square.")
    include_diagonal: bool = option(False, "The full norm; the paper's leaves out the diagonal of the Gram matrix.")
    group_weight: float = option(0.5, "The groups' share of variance and covariance.", at_least=0, at_most=1)
    group_bandwidth: bool = option(False, "The bandwidth of each group on its own.")
    learn_mixture_by: MixtureRule = option("pairs", "What the shares of a learnable mixture follow.")
    spectrum: Spectrum | None = option(
        None, "One shared by all views, the default of two; or one for each, as in the paper."
    )
    solver: SolverChoice = option("eigh", "What finds the spectrum: an eigensolver, matrix products, or the fastest.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spectrum == "shared" and not self.scaled:
            raise ValueError('spectrum "shared" is in units of the total variance: it has no parametrization "paper"')

    @property
    def scaled(self) -> bool:
        """Whether the terms are in units of the total variance."""
        return self.parametrization == "scaled"

    @property
    def shares_spectrum(self) -> bool:
        """Whether there is one spectrum for all views; the parametrization's own choice where none is given."""
        return self.scaled if self.spectrum is None else self.spectrum == "shared"

    @property
    def deviation(self) -> float:
        """The threshold; the parametrization's own where none is given."""
        return DEFAULT_THRESHOLD[self.parametrization] if self.threshold is None else self.threshold

    @property
    def weights(self) -> tuple[float, float, float]:
        """alpha, beta and zeta; the parametrization's own where none are given."""
        return weights_or(DEFAULT_WEIGHTS["shared" if self.shares_spectrum else self.parametrization], self)

    def resolved(self) -> Self:
        """The same settings with the parametrization's own spectrum, weights and threshold where none are given."""
        alpha, beta, zeta = self.weights
        return replace(
            self,
            invariance_weight=alpha,
            variance_weight=beta,
            covariance_weight=zeta,
            threshold=self.deviation,
            spectrum="shared" if self.shares_spectrum else "per-view",
        )


def three_terms(operator: CovarianceOperator, distance: Tensor, options: KernelVICRegOptions) -> LossTerms:
    """Invariance, variance and covariance of views with these covariance operators and this mean squared distance.

    Variance and covariance are added up over two views; of more than two, over a pair of them on average.
    """
    if options.scaled:
        distance = distance / total_variance(operator, options.eps).mean()
    variance, covariance = variance_term(operator, options), covariance_term(operator, options)
    return LossTerms.weighted(options.weights, distance, 2 * variance.mean(), 2 * covariance.mean())


def shared_terms(operator: CovarianceOperator, total: Tensor, options: KernelVICRegOptions) -> LossTerms:
    """The terms of ``C_bar``, the operator of the views' mean, in units of the views' mean total variance."""
    unit = total.clamp_min(0) + (options.eps + operator.round_off)
    invariance = (unit - options.eps - operator.trace()).clamp_min(0) / unit
    variance, covariance = variance_term(operator, options, unit), covariance_term(operator, options, unit)
    return LossTerms.weighted(options.weights, invariance, variance, covariance)


def variance_term(operator: CovarianceOperator, options: KernelVICRegOptions, total: Tensor | None = None) -> Tensor:
    """``mean_i [threshold - sqrt(lambda_i + eps)]_+^2`` of each view.

    Over all b directions, those that must be zero included; scaled: over the r that can vary, with lambda_i in units of
    ``total / r``, by default their mean, ``tr C / r``.
    """
    threshold, eps, r = options.deviation, options.eps, operator.rank_bound
    if not options.scaled:
        return operator.hinge_sum(threshold, eps, operator.samples, solver=options.solver) / operator.samples
    total = total_variance(operator, eps) if total is None else total
    return operator.hinge_sum(threshold, eps, r, r / total, options.solver) / r


def covariance_term(operator: CovarianceOperator, options: KernelVICRegOptions, total: Tensor | None = None) -> Tensor:
    """``|C|_HS`` of each view, or its square; scaled: in units of the flat spectrum with this trace, or its own."""
    norm = operator.hs_norm() if options.include_diagonal else operator.offdiagonal_hs_norm()
    if options.scaled:  # before it is squared, which may be more than the type can hold
        norm = norm * operator.rank_bound**0.5 / (total_variance(operator, options.eps) if total is None else total)
    return norm.square() if options.covariance == "squared" else norm


def total_variance(operator: CovarianceOperator, eps: float) -> Tensor:
    """``tr C + eps`` of each view: what the scaled form measures by. Below eps a collapse is seen for what it is."""
    return operator.trace().clamp_min(0) + (eps + operator.round_off)
