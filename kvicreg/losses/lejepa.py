"""LeJEPA (Balestriero and LeCun, 2025): views predict their mean, and every slice of the embeddings is Gaussian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.gaussian import Slices, prediction_error
from kvicreg.losses.terms import TermsLoss, stack_views
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = ["LeJEPALoss", "LeJEPAOptions", "LeJEPATerms", "epps_pulley"]

POINTS, REACH = 17, 5.0
"""Knots of the trapezoid rule, and where it ends."""


class LeJEPATerms(NamedTuple):
    """`total` is weighted, the terms are not."""

    total: Tensor
    prediction: Tensor
    sigreg: Tensor


@dataclass(frozen=True, kw_only=True)
class LeJEPAOptions(Options):
    """Settings of `LeJEPALoss`."""

    sigreg_weight: float = option(0.05, "Share of SIGReg in the loss; prediction has the rest.", at_least=0, at_most=1)
    slices: int = option(256, "Random directions of a step.", above=0)


class LeJEPALoss(TermsLoss):
    """``(1 - w) * prediction + w * SIGReg``.

    - prediction: mean square of ``z_i^v - mean of its views``, over all coordinates
    - SIGReg: ``b int |mean_i exp(i t a.z_i) - exp(-t^2 / 2)|^2 exp(-t^2 / 2) dt`` from -5 to 5, by the trapezoid rule
      with 17 knots, its mean over random directions a and over the views: the statistic by which Epps and Pulley test
      a sample for the standard normal distribution

    Args:
        sigreg_weight: w.
        slices: how many directions, drawn anew at every training step.
        gather: under `torch.distributed`, the loss of the global batch.
        seed: of the directions.

    Example:
        >>> LeJEPALoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self,
        sigreg_weight: float = LeJEPAOptions.sigreg_weight,
        slices: int = LeJEPAOptions.slices,
        gather: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.options = LeJEPAOptions(sigreg_weight=float(sigreg_weight), slices=slices)
        self.slices, self.gather = Slices(slices, seed), gather

    def advance(self, *views: Tensor) -> None:
        """Other directions."""
        self.slices.advance()

    def terms(self, *views: Tensor) -> LeJEPATerms:
        """The weighted total, prediction and SIGReg."""
        z = stack_views(views)
        with full_precision(z):
            shard, weight = Shard.of(z, gather=self.gather), self.options.sigreg_weight
            prediction = prediction_error(z, shard)
            sigreg = epps_pulley(z @ self.slices.directions(z), shard).mean()
            return LeJEPATerms(torch.lerp(prediction, sigreg, weight), prediction, sigreg)

    def extra_repr(self) -> str:
        return f"sigreg_weight={self.options.sigreg_weight:g}, gather={self.gather}"


def epps_pulley(x: Tensor, shard: Shard) -> Tensor:
    """The statistic of each column of ``(..., b, m)``, over the global batch: shape ``(..., m)``.

    Both characteristic functions are even in their real part and odd in the imaginary one: half of the knots suffice.
    """
    t = torch.linspace(0, REACH, POINTS // 2 + 1, device=x.device, dtype=x.dtype)
    normal = (t.square() / -2).exp()
    weights = normal * 2 * (REACH / (POINTS // 2))  # the first is of no account: at 0 both functions are 1
    weights[-1] /= 2
    gaps = []
    for knot, value in zip(t.unbind(), normal.unbind(), strict=True):  # memory of one knot at a time
        angles = x * knot
        sums = shard.sum(torch.stack([angles.cos().sum(-2), angles.sin().sum(-2)])) / shard.total
        gaps.append((sums[0] - value).square() + sums[1].square())
    statistic: Tensor = shard.total * (torch.stack(gaps, dim=-1) @ weights)
    return statistic
