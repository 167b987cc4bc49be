"""VICReg (Bardes, Ponce and LeCun, 2022) in Euclidean space, in each of the forms that circulate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self

import torch
from torch import Tensor

from kvicreg.kernels.tensors import full_precision, is_concrete
from kvicreg.losses.terms import LossTerms, TermsLoss, setting, stack_views, told_weights, weights_or, with_settings
from kvicreg.operators.build import check_samples
from kvicreg.operators.covariance import CovarianceOperator
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = ["VICRegLoss", "VICRegOptions", "vicreg_terms"]

Convention = Literal["official", "solo-learn", "paper"]


class _Convention(NamedTuple):
    weights: tuple[float, float, float]
    invariance_over: Literal["sum", "mean"]  # over the p coordinates
    hinge_power: int
    variance_over: Literal["sum", "mean"]  # over the two views


CONVENTIONS: dict[str, _Convention] = {
    "paper": _Convention((25.0, 25.0, 1.0), "sum", 2, "sum"),
    "official": _Convention((25.0, 25.0, 1.0), "mean", 1, "mean"),
    "solo-learn": _Convention((25.0, 25.0, 1.0), "mean", 1, "sum"),
}


@dataclass(frozen=True, kw_only=True)
class VICRegOptions(Options):
    """The settings of VICReg; see `VICRegLoss`."""

    convention: Convention = option("official", "Which of the forms that circulate.")
    invariance_weight: float | None = option(None, "Weight of the invariance term.", at_least=0)
    variance_weight: float | None = option(None, "Weight of the variance term.", at_least=0)
    covariance_weight: float | None = option(None, "Weight of the covariance term.", at_least=0)
    threshold: float = option(1.0, "The standard deviation that the variance term asks for.", at_least=0)
    eps: float = option(1e-4, "Added to variances under the root.", at_least=0)

    @property
    def weights(self) -> tuple[float, float, float]:
        """alpha, beta and zeta; the convention's own where none are given."""
        return weights_or(CONVENTIONS[self.convention].weights, self)

    def resolved(self) -> Self:
        """The same settings with the convention's own weights where none are given."""
        alpha, beta, zeta = self.weights
        return replace(self, invariance_weight=alpha, variance_weight=beta, covariance_weight=zeta)


class VICRegLoss(TermsLoss):
    """``alpha * invariance + beta * variance + zeta * covariance`` of the coordinates of the embeddings.

    With ``sd_j = sqrt(Var(z_.j) + eps)`` and ``C`` the covariance matrix (both over b - 1):

    | convention   | invariance            | variance of a view            | of the views | covariance               |
    |--------------|-----------------------|-------------------------------|--------------|--------------------------|
    | "official"   | mean of (z - z')^2    | mean_j [threshold - sd_j]_+   | mean         | sum_{j != k} C_jk^2 / p  |
    | "solo-learn" | mean of (z - z')^2    | mean_j [threshold - sd_j]_+   | sum          | sum_{j != k} C_jk^2 / p  |
    | "paper"      | mean_i |z_i - z'_i|^2 | mean_j [threshold - sd_j]_+^2 | sum          | sum_{j != k} C_jk^2 / p  |

    The covariance is summed over the views in all of them. "official" is that of the method's authors, "paper" the
    review in the Kernel VICReg paper. With more than two views it is the mean of the loss over all pairs of views.

    Args:
        convention: "official", "solo-learn" or "paper".
        invariance_weight, variance_weight, covariance_weight: 25, 25 and 1 unless given.
        threshold: the standard deviation to reach.
        eps: added to variances under the root.
        gather: under `torch.distributed`, the loss of the global batch.

    Example:
        >>> VICRegLoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self,
        convention: Convention = "official",
        invariance_weight: float | None = None,
        variance_weight: float | None = None,
        covariance_weight: float | None = None,
        threshold: float = 1.0,
        eps: float = 1e-4,
        gather: bool = True,
    ) -> None:
        super().__init__()
        self.options = VICRegOptions(
            convention=convention,
            invariance_weight=invariance_weight,
            variance_weight=variance_weight,
            covariance_weight=covariance_weight,
            threshold=threshold,
            eps=eps,
        ).resolved()
        self.gather = gather

    convention, threshold, eps = setting("convention"), setting("threshold"), setting("eps")
    invariance_weight = setting("invariance_weight")
    variance_weight = setting("variance_weight")
    covariance_weight = setting("covariance_weight")

    def terms(self, *views: Tensor) -> LossTerms:
        """The weighted total and the three terms without their weights."""
        return vicreg_terms(*views, options=self.options, gather=self.gather)

    def extra_repr(self) -> str:
        o = self.options
        return (
            f"convention={o.convention!r}, {told_weights(o.weights)}, threshold={o.threshold:g}, eps={o.eps:g}, "
            f"gather={self.gather}"
        )


def vicreg_terms(
    *views: Tensor,
    options: VICRegOptions | None = None,
    gather: bool = True,
    **settings: Any,
) -> LossTerms:
    """`VICRegLoss` as a pure function of the views ``(b, p)``.

    The settings are given as `options`, or one by one under the names that they have there.

    Example:
        >>> vicreg_terms(*torch.randn(2, 64, 8)).total.shape
        torch.Size([])
    """
    options = with_settings(options or VICRegOptions(), settings)
    form, z = CONVENTIONS[options.convention], stack_views(views)
    with full_precision(z):
        shard = Shard.of(z, gather=gather)
        check_samples(shard)
        variances = coordinate_variances(z, shard)
        invariance = invariance_term(z, shard) / (z.shape[-1] if form.invariance_over == "mean" else 1)
        hinges = (options.threshold - (variances + options.eps).sqrt()).clamp_min(0) ** form.hinge_power
        variance = hinges.mean(-1).mean() * (2 if form.variance_over == "sum" else 1)
        covariance = 2 * covariance_term(z, variances, shard).mean()
        return LossTerms.weighted(options.weights, invariance, variance, covariance)


def invariance_term(z: Tensor, shard: Shard) -> Tensor:
    """``mean_i |z_i - z'_i|^2`` over the pairs of views ``(v, b, p)``: twice the variance of an image's views."""
    difference = z[0] - z[1] if len(z) == 2 else (z - z.mean(0)) * (2 / (len(z) - 1)) ** 0.5
    return shard.sum(difference.square().sum()) / shard.total


def coordinate_variances(z: Tensor, shard: Shard) -> Tensor:
    """The unbiased variance of every coordinate of every view, ``(v, p)``."""
    if shard.world == 1:
        variances: Tensor = _Variances.apply(z) if is_concrete() else z.var(dim=1)
        return variances
    with torch.no_grad():  # to the first order, and there is no other here, no gradient goes through the mean
        mean = shard.sum(z.sum(dim=1, keepdim=True)) / shard.total
    return shard.sum((z - mean).square().sum(dim=1)) / (shard.total - 1)


class _Variances(torch.autograd.Function):
    """The gradient of a variance is ``2 (z - mean) / (n - 1)``: nothing goes through the mean."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        centred = z - z.mean(dim=1, keepdim=True)
        ctx.save_for_backward(z, centred)
        return centred.square().sum(dim=1) / (z.shape[1] - 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        z, centred = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated again
            centred = z - z.mean(dim=1, keepdim=True)
        pull: Tensor = centred * (2 / (z.shape[1] - 1) * grad).unsqueeze(1)
        return pull


def covariance_term(z: Tensor, variances: Tensor, shard: Shard) -> Tensor:
    """``sum_{j != k} C_jk^2 / p`` of each view.

    The sum over all j and k is the squared norm of the covariance operator, on whichever side is smaller.
    """
    bessel = shard.total / (shard.total - 1)
    norm = CovarianceOperator.from_features(z, shard=shard).squared_hs_norm() * bessel**2
    return (norm - variances.square().sum(-1)).clamp_min(0) / z.shape[-1]
