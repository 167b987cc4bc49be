"""KerJEPA (Zimmermann et al., 2025): views predict their mean; a kernel tells embeddings from a Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from kvicreg.kernels.pairs import AllPairs, SamePoints
from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.gaussian import prediction_error
from kvicreg.losses.terms import TermsLoss, stack_views
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = ["KerJEPALoss", "KerJEPAOptions", "KerJEPATerms", "gaussian_mmd", "gaussian_stein"]

Discrepancy = Literal["mmd", "stein"]


class KerJEPATerms(NamedTuple):
    """`total` is weighted, the terms are not."""

    total: Tensor
    prediction: Tensor
    discrepancy: Tensor


@dataclass(frozen=True, kw_only=True)
class KerJEPAOptions(Options):
    """Settings of `KerJEPALoss`."""

    discrepancy: Discrepancy = option(
        "mmd", "Maximum mean discrepancy, or kernel Stein discrepancy, for narrow embeddings."
    )
    discrepancy_weight: float = option(0.05, "Share of the discrepancy in the loss.", at_least=0, at_most=1)
    gamma: float | None = option(None, "Scale of the kernel; by default 1 / (2 width).", above=0)
    exponent: float | None = option(
        None, "Of (1 + gamma |x - y|^2 / exponent)^-exponent, for the Stein discrepancy; by default Gaussian.", above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exponent is not None and self.discrepancy == "mmd":
            raise ValueError("exponent is read only with discrepancy stein; the mmd has the Gaussian kernel")


class KerJEPALoss(TermsLoss):
    """``(1 - w) * prediction + w * b * discrepancy``.

    - prediction: mean square of ``z_i^v - mean of its views``, over all coordinates
    - discrepancy between a view and the standard Gaussian, its mean over the views: "mmd", the squared distance of the
      means in the feature space of ``exp(-gamma |x - y|^2)``, in closed form; or "stein", the squared kernel Stein
      discrepancy with that kernel, or with a rational quadratic one, by the score -x

    The mmd is over all pairs of images, the Stein discrepancy over pairs of different ones, and so without bias: with
    those of an image and itself, which pull it to zero, a batch of fewer images than coordinates is nearer to a
    Gaussian when it has collapsed. b, the batch size, is the factor of a test statistic, as in LeJEPA.

    Args:
        discrepancy: "mmd", or "stein", which wide embeddings do not learn from: up to 64 coordinates were tried.
        discrepancy_weight: w.
        gamma: of the kernel; None is ``1 / (2 p)``: two points of a standard Gaussian have a value of about 1 / e.
        exponent: of a rational quadratic kernel, 1/2 for the inverse multiquadric; None is the Gaussian kernel.
        gather: under `torch.distributed`, the loss of the global batch.

    Example:
        >>> KerJEPALoss("mmd")(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self,
        discrepancy: Discrepancy = KerJEPAOptions.discrepancy,
        discrepancy_weight: float = KerJEPAOptions.discrepancy_weight,
        gamma: float | None = None,
        exponent: float | None = None,
        gather: bool = True,
    ) -> None:
        super().__init__()
        self.options = KerJEPAOptions(
            discrepancy=discrepancy, discrepancy_weight=discrepancy_weight, gamma=gamma, exponent=exponent
        )
        self.gather = gather

    def terms(self, *views: Tensor) -> KerJEPATerms:
        """The weighted total, prediction and the discrepancy times the batch size."""
        z = stack_views(views)
        with full_precision(z):
            shard, o = Shard.of(z, gather=self.gather), self.options
            prediction = prediction_error(z, shard)
            gamma = 1 / (2 * z.shape[-1]) if o.gamma is None else o.gamma
            z = shard.gather(z)
            each = gaussian_mmd(z, gamma) if o.discrepancy == "mmd" else gaussian_stein(z, gamma, o.exponent)
            discrepancy = shard.total * each.mean()
            return KerJEPATerms(torch.lerp(prediction, discrepancy, o.discrepancy_weight), prediction, discrepancy)

    def extra_repr(self) -> str:
        o = self.options
        return f"discrepancy={o.discrepancy!r}, weight={o.discrepancy_weight:g}, gather={self.gather}"


def gaussian_mmd(z: Tensor, gamma: float) -> Tensor:
    """``|mean phi(z) - E phi(N(0, I))|^2`` of each view ``(v, b, p)``, phi of ``exp(-gamma |x - y|^2)``."""
    width = z.shape[-1]
    within = (AllPairs(z).squared_distance * -gamma).exp().mean((-2, -1))
    across = (SamePoints(z).inner * (-gamma / (1 + 2 * gamma))).exp().mean(-1) * (1 + 2 * gamma) ** (-width / 2)
    squared: Tensor = within - 2 * across + (1 + 4 * gamma) ** (-width / 2)
    return squared


def gaussian_stein(z: Tensor, gamma: float, exponent: float | None = None) -> Tensor:
    """The mean over pairs of different rows of the Stein kernel of the standard Gaussian, of each view ``(v, b, p)``.

    For a kernel ``f(r)`` of the squared distance r it is ``f x.y + 2 f' r - 4 f'' r - 2 p f'``.
    """
    pairs, width = AllPairs(z), z.shape[-1]
    r = pairs.squared_distance
    if exponent is None:
        f = (-gamma * r).exp()
        slope, bend = -gamma * f, gamma**2 * f
    else:
        base = 1 + gamma * r / exponent
        f, slope = base**-exponent, -gamma * base ** (-exponent - 1)
        bend = gamma**2 * (exponent + 1) / exponent * base ** (-exponent - 2)
    values = f * pairs.inner + (2 * r - 2 * width) * slope - 4 * r * bend
    count = values.shape[-1]
    between: Tensor = values.sum((-2, -1)) - values.diagonal(dim1=-2, dim2=-1).sum(-1)
    return between / max(1, count * (count - 1))
