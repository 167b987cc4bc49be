"""Kernel VICReg: invariance, variance and covariance in a reproducing kernel Hilbert space."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from kvicreg import kernels
from kvicreg.kernels.bandwidth import Median
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import full_precision
from kvicreg.losses.feature_space import check_approximation
from kvicreg.losses.groups import group_views
from kvicreg.losses.mixture import held, is_learnt, separate
from kvicreg.losses.terms import LossTerms, check_choice, check_views, check_weights
from kvicreg.operators import Approximation, CovarianceOperator, view_operators
from kvicreg.operators.bandwidth import resolved
from kvicreg.operators.shard import Shard

__all__ = ["KernelVICRegLoss", "covariance_term", "kernel_vicreg_terms", "variance_term"]

Parametrization = Literal["scaled", "paper"]
CovarianceForm = Literal["norm", "squared"]
MixtureRule = Literal["pairs", "loss"]

DEFAULT_WEIGHTS: dict[str, tuple[float, float, float]] = {"scaled": (1.0, 1.0, 0.02), "paper": (0.5, 1.0, 2.0)}
"""(invariance, variance, covariance): ours, and the triple the paper uses most on natural images."""
DEFAULT_THRESHOLD: dict[str, float] = {"scaled": 1.5, "paper": 1.0}


class KernelVICRegLoss(nn.Module):
    """``alpha * invariance + beta * variance + zeta * covariance``, each in the feature space of a kernel.

    With ``C`` the centred covariance operator of a view and ``lambda_i`` its eigenvalues:

    - invariance: ``mean_i |phi(z_i) - phi(z'_i)|^2``
    - variance: ``mean_i [threshold - sqrt(lambda_i + eps)]_+^2``, added up over the views
    - covariance: ``|C|_HS``, added up over the views

    The "paper" parametrization is exactly that. "scaled" measures the same three quantities against the total variance
    ``tr C``, so that one triple of weights serves every kernel, bandwidth, batch size and width: the invariance is
    ``mean_i |phi(z_i) - phi(z'_i)|^2 / tr C``, 0 for views that agree and 2 for views that have nothing in common;
    standard deviations are ``sqrt(r lambda_i / tr C + eps)`` over the r directions that can vary, so that a flat
    spectrum reads 1; and the covariance is ``sqrt(r) |C|_HS / tr C``, which a flat spectrum makes 1.

    With more than two views it is the mean of the loss over all pairs of views, measured by the mean ``tr C`` of all.

    With `groups`, a whole number for each row, variance and covariance are also those within each group, every group
    counting the same: ``(1 - group_weight) * whole batch + group_weight * mean over the groups``. Groups with fewer
    than two members in the (global) batch are left out.

    Args:
        kernel: a name ("linear", "polynomial", "rbf", "laplacian", "rational_quadratic" or "rq") or a `Kernel`.
        parametrization: "scaled" or "paper".
        invariance_weight, variance_weight, covariance_weight: alpha, beta and zeta; None takes the parametrization's.
        threshold: the standard deviation that is enough; None takes the parametrization's: 1 as in VICReg, or 1.5 times
            that of a flat spectrum when scaled, so that directions above the average are held down by the others.
        eps: added to variances under the root.
        covariance: "norm" or "squared".
        include_diagonal: the full Hilbert-Schmidt norm, or the paper's, which leaves out the diagonal of the Gram
            matrix.
        approximation: None (exact), `operators.Nystrom(landmarks=m)` or `operators.RandomFourier(features=D)`.
        gather: under `torch.distributed`, the loss of the global batch (with gradients that are right after DDP's
            averaging); False keeps to the local batch.
        group_weight: the groups' share of variance and covariance, where `groups` are given: 0 to 1.
        group_bandwidth: the median heuristic within each group on its own, instead of one bandwidth for all.
        learn_mixture_by: where the kernel is a learnable mixture, what its shares follow: "pairs", how well each member
            tells two views of an image from two images, or "loss", which flees into the easiest member; see
            `losses.mixture`.

    Shape:
        Views ``(b, p)``, two or more, all of one shape; the result is a scalar of at least float32.

    Example:
        >>> criterion = KernelVICRegLoss(kernel="rbf")
        >>> z1, z2 = torch.randn(64, 32, requires_grad=True), torch.randn(64, 32)
        >>> criterion(z1, z2).backward()
        >>> criterion.terms(z1, z2)._fields
        ('total', 'invariance', 'variance', 'covariance')
    """

    def __init__(
        self,
        kernel: str | Kernel = "rbf",
        parametrization: Parametrization = "scaled",
        invariance_weight: float | None = None,
        variance_weight: float | None = None,
        covariance_weight: float | None = None,
        threshold: float | None = None,
        eps: float = 1e-4,
        covariance: CovarianceForm = "norm",
        include_diagonal: bool = False,
        approximation: Approximation | None = None,
        gather: bool = True,
        group_weight: float = 0.5,
        group_bandwidth: bool = False,
        learn_mixture_by: MixtureRule = "pairs",
    ) -> None:
        super().__init__()
        check_choice("parametrization", parametrization, list(DEFAULT_WEIGHTS))
        check_choice("covariance", covariance, ["norm", "squared"])
        check_choice("learn_mixture_by", learn_mixture_by, ["pairs", "loss"])
        check_approximation(approximation)
        given = (invariance_weight, variance_weight, covariance_weight)
        defaults = DEFAULT_WEIGHTS[parametrization]
        alpha, beta, zeta = (d if w is None else float(w) for w, d in zip(given, defaults, strict=True))
        check_weights(invariance_weight=alpha, variance_weight=beta, covariance_weight=zeta)
        threshold = DEFAULT_THRESHOLD[parametrization] if threshold is None else float(threshold)
        check_weights(threshold=threshold, eps=eps)
        if not 0 <= group_weight <= 1:
            raise ValueError(f"group_weight must be between 0 and 1, got {group_weight}")
        self.kernel = kernels.get(kernel)
        if group_bandwidth and any(isinstance(m, Median) and m.momentum for m in self.kernel.modules()):
            raise ValueError("group_bandwidth takes each group's own median, so it can't go with a smoothed one")
        self.parametrization = parametrization
        self.invariance_weight, self.variance_weight, self.covariance_weight = alpha, beta, zeta
        self.threshold, self.eps = threshold, float(eps)
        self.covariance, self.include_diagonal = covariance, include_diagonal
        self.approximation = approximation
        self.gather = gather
        self.group_weight, self.group_bandwidth = float(group_weight), group_bandwidth
        self.learn_mixture_by: MixtureRule = learn_mixture_by

    def forward(self, *views: Tensor, groups: Tensor | None = None) -> Tensor:
        """The weighted loss, a scalar."""
        return self.terms(*views, groups=groups).total

    def terms(self, *views: Tensor, groups: Tensor | None = None) -> LossTerms:
        """The weighted total and the three terms without their weights."""
        return kernel_vicreg_terms(
            *views,
            kernel=self.kernel,
            parametrization=self.parametrization,
            weights=(self.invariance_weight, self.variance_weight, self.covariance_weight),
            threshold=self.threshold,
            eps=self.eps,
            covariance=self.covariance,
            include_diagonal=self.include_diagonal,
            approximation=self.approximation,
            gather=self.gather,
            groups=groups,
            group_weight=self.group_weight,
            group_bandwidth=self.group_bandwidth,
            learn_mixture_by=self.learn_mixture_by,
        )

    def extra_repr(self) -> str:
        return (
            f"parametrization={self.parametrization!r}, weights=({self.invariance_weight:g}, "
            f"{self.variance_weight:g}, {self.covariance_weight:g}), threshold={self.threshold:g}, eps={self.eps:g}, "
            f"covariance={self.covariance!r}, include_diagonal={self.include_diagonal}, gather={self.gather}"
        )


def kernel_vicreg_terms(
    *views: Tensor,
    kernel: Kernel,
    parametrization: Parametrization = "scaled",
    weights: tuple[float, float, float] = DEFAULT_WEIGHTS["scaled"],
    threshold: float | None = None,
    eps: float = 1e-4,
    covariance: CovarianceForm = "norm",
    include_diagonal: bool = False,
    approximation: Approximation | None = None,
    gather: bool = True,
    groups: Tensor | None = None,
    group_weight: float = 0.5,
    group_bandwidth: bool = False,
    learn_mixture_by: MixtureRule = "pairs",
) -> LossTerms:
    """`KernelVICRegLoss` as a pure function of the views ``(b, p)``; see there for the arguments."""
    checked = check_views(views)
    scaled = parametrization == "scaled"
    enough = DEFAULT_THRESHOLD[parametrization] if threshold is None else threshold

    def of_both_views(operator: CovarianceOperator) -> tuple[Tensor, Tensor]:
        """Variance and covariance, of two views together."""
        spread = covariance_term(operator, form=covariance, include_diagonal=include_diagonal, eps=eps, scaled=scaled)
        each = variance_term(operator, threshold=enough, eps=eps, scaled=scaled), spread
        return each[0].sum() * (2 / len(views)), each[1].sum() * (2 / len(views))

    with full_precision(checked[0]):
        own, aim = kernel, None
        by_pairs = is_learnt(kernel) and learn_mixture_by == "pairs"
        if groups is not None or by_pairs:  # here, once per step: groups and gaps are measured with the same bandwidth
            stacked, shard = torch.stack(checked), Shard.of(checked[0], gather=gather)
            kernel = resolved(kernel, stacked, shard)
            if by_pairs:
                own = held(own)
                _, aim = separate(kernel.unit(stacked.shape[-1]) if scaled else kernel, stacked, shard)
                kernel = held(kernel)
        operator, invariance = view_operators(checked, kernel, approximation, gather, unit=scaled)
        variance, spread = of_both_views(operator)
        if scaled:
            invariance = invariance / _total(operator, eps).mean()
        if groups is not None and (parts := group_views(checked, groups, gather=gather)):
            shared = own if group_bandwidth else kernel
            within = [of_both_views(view_operators(p, shared, approximation, False, unit=scaled)[0]) for p in parts]
            variance = torch.lerp(variance, torch.stack([v for v, _ in within]).mean(), group_weight)
            spread = torch.lerp(spread, torch.stack([c for _, c in within]).mean(), group_weight)
        total = weights[0] * invariance + weights[1] * variance + weights[2] * spread
        if aim is not None:  # a gradient for the shares, and no change of the value
            total = total - (aim - aim.detach()).to(total)
    return LossTerms(total, invariance, variance, spread)


def variance_term(operator: CovarianceOperator, *, threshold: float, eps: float, scaled: bool) -> Tensor:
    """``mean_i [threshold - sqrt(lambda_i + eps)]_+^2`` of each view.

    Over all b directions, those that are known to be zero included; scaled: over the r that can vary, with lambda_i in
    units of their mean, ``tr C / r``.
    """
    values = operator.eigenvalues()
    if scaled:
        r = operator.rank_bound
        deviations = (values[..., :r] * (r / _total(operator, eps)).unsqueeze(-1) + eps).sqrt()
        return (threshold - deviations).clamp_min(0).square().mean(-1)
    b = operator.samples
    hinges = (threshold - (values + eps).sqrt()).clamp_min(0).square().sum(-1)
    missing: float = (b - values.shape[-1]) * max(0.0, threshold - eps**0.5) ** 2
    return (hinges + missing) / b


def covariance_term(
    operator: CovarianceOperator, *, form: CovarianceForm, include_diagonal: bool, eps: float, scaled: bool
) -> Tensor:
    """``|C|_HS`` of each view, or its square; scaled: in units of the flat spectrum with the same trace."""
    norm = operator.hs_norm() if include_diagonal else operator.offdiagonal_hs_norm()
    if scaled:  # before it is squared, which may be more than the type can hold
        norm = norm * operator.rank_bound**0.5 / _total(operator, eps)
    return norm.square() if form == "squared" else norm


def _total(operator: CovarianceOperator, eps: float) -> Tensor:
    """``tr C + eps`` of each view: what the scaled form measures by. Below eps a collapse is seen for what it is."""
    return operator.trace().clamp_min(0) + (eps + operator.round_off)
