"""VICReg (Bardes, Ponce and LeCun, 2022) in Euclidean space, in each of the forms that circulate."""

from __future__ import annotations

from itertools import combinations
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from kvicreg.kernels.pairs import full_precision
from kvicreg.losses.terms import LossTerms, check_choice, check_weights, stack_views
from kvicreg.operators.covariance import CovarianceOperator
from kvicreg.operators.shard import Shard

__all__ = ["VICRegLoss", "vicreg_terms"]


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


class VICRegLoss(nn.Module):
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
        threshold: the standard deviation that is enough.
        eps: added to variances under the root.
        gather: under `torch.distributed`, the loss of the global batch.

    Example:
        >>> VICRegLoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self,
        convention: str = "official",
        invariance_weight: float | None = None,
        variance_weight: float | None = None,
        covariance_weight: float | None = None,
        threshold: float = 1.0,
        eps: float = 1e-4,
        gather: bool = True,
    ) -> None:
        super().__init__()
        check_choice("convention", convention, list(CONVENTIONS))
        given = (invariance_weight, variance_weight, covariance_weight)
        defaults = CONVENTIONS[convention].weights
        alpha, beta, zeta = (d if w is None else float(w) for w, d in zip(given, defaults, strict=True))
        check_weights(invariance_weight=alpha, variance_weight=beta, covariance_weight=zeta)
        check_weights(threshold=threshold, eps=eps)
        self.convention = convention
        self.invariance_weight, self.variance_weight, self.covariance_weight = alpha, beta, zeta
        self.threshold, self.eps, self.gather = float(threshold), float(eps), gather

    def forward(self, *views: Tensor) -> Tensor:
        """The weighted loss, a scalar."""
        return self.terms(*views).total

    def terms(self, *views: Tensor) -> LossTerms:
        """The weighted total and the three terms without their weights."""
        return vicreg_terms(
            *views,
            convention=self.convention,
            weights=(self.invariance_weight, self.variance_weight, self.covariance_weight),
            threshold=self.threshold,
            eps=self.eps,
            gather=self.gather,
        )

    def extra_repr(self) -> str:
        weights = f"({self.invariance_weight:g}, {self.variance_weight:g}, {self.covariance_weight:g})"
        return (
            f"convention={self.convention!r}, weights={weights}, "
            f"threshold={self.threshold:g}, eps={self.eps:g}, gather={self.gather}"
        )


def vicreg_terms(
    *views: Tensor,
    convention: str = "official",
    weights: tuple[float, float, float] = (25.0, 25.0, 1.0),
    threshold: float = 1.0,
    eps: float = 1e-4,
    gather: bool = True,
) -> LossTerms:
    """`VICRegLoss` as a pure function of the views ``(b, p)``; see there for the arguments."""
    form = CONVENTIONS[convention]
    z = stack_views(views)
    p = z.shape[-1]
    with full_precision(z):
        shard = Shard.of(z, gather=gather)
        if shard.total < 2:
            raise ValueError("a batch of one sample has no variance: the (global) batch must have at least two samples")
        squares = torch.stack([(z[i] - z[j]).square().sum() for i, j in combinations(range(len(z)), 2)])
        invariance = shard.sum(squares.mean()) / shard.total
        if form.invariance_over == "mean":
            invariance = invariance / p

        with torch.no_grad():  # a variance has no gradient through the mean
            mean = shard.sum(z.sum(dim=1, keepdim=True)) / shard.total
        variances = shard.sum((z - mean).square().sum(dim=1)) / (shard.total - 1)
        hinges = (threshold - (variances + eps).sqrt()).clamp_min(0) ** form.hinge_power
        variance = hinges.mean(-1).mean() * (2 if form.variance_over == "sum" else 1)

        # sum of C_jk^2 over all j, k is the squared norm of the covariance operator, on whichever side is smaller
        bessel = shard.total / (shard.total - 1)
        norm = CovarianceOperator.from_features(z, shard=shard).squared_hs_norm() * bessel**2
        covariance = ((norm - variances.square().sum(-1)).clamp_min(0) / p).mean() * 2
        total = weights[0] * invariance + weights[1] * variance + weights[2] * covariance
    return LossTerms(total, invariance, variance, covariance)
