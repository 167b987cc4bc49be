"""VISReg (Wu, Balestriero and Levine, 2026): unit deviations, slices shaped like a Gaussian, views that agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.gaussian import Slices, prediction_error
from kvicreg.losses.terms import TermsLoss, stack_views
from kvicreg.operators.build import check_samples
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = ["VISRegLoss", "VISRegOptions", "VISRegTerms"]


class VISRegTerms(NamedTuple):
    """`total` is weighted, the terms are not."""

    total: Tensor
    prediction: Tensor
    scale: Tensor
    shape: Tensor


@dataclass(frozen=True, kw_only=True)
class VISRegOptions(Options):
    """Settings of `VISRegLoss`."""

    scale_weight: float = option(1.0, "Weight of the deviations' difference from 1.", at_least=0)
    shape_weight: float = option(1.0, "Weight of the slices' distance from a Gaussian.", at_least=0)
    slices: int = option(256, "Random directions of a step.", above=0)
    eps: float = option(1e-6, "Added to variances under the root.", above=0)


class VISRegLoss(TermsLoss):
    """``prediction + scale_weight * scale + shape_weight * shape``.

    - prediction: mean square of ``z_i^v - mean of its views``, over all coordinates
    - scale: ``mean_j (1 - sd_j)^2`` of the coordinates' deviations, with ``sd_j = sqrt(Var(z_.j) + eps)``: a collapse
      is pulled back with a gradient that does not vanish
    - shape: the squared Wasserstein distance of ``a.u`` from the standard normal distribution, its mean over random
      directions a, where u are the embeddings with each coordinate standardised: ``mean_i (sorted_i - q_i)^2`` with q
      the quantiles at ``(i - 1/2) / b``

    scale and shape are means over the views.

    Args:
        scale_weight, shape_weight: the weights.
        slices: how many directions, drawn anew at every training step.
        eps: added to variances.
        gather: under `torch.distributed`, the loss of the global batch.
        seed: of the directions.

    Example:
        >>> VISRegLoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self,
        scale_weight: float = VISRegOptions.scale_weight,
        shape_weight: float = VISRegOptions.shape_weight,
        slices: int = VISRegOptions.slices,
        eps: float = VISRegOptions.eps,
        gather: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.options = VISRegOptions(scale_weight=scale_weight, shape_weight=shape_weight, slices=slices, eps=eps)
        self.slices, self.gather = Slices(slices, seed), gather

    def advance(self, *views: Tensor) -> None:
        """Other directions."""
        self.slices.advance()

    def terms(self, *views: Tensor) -> VISRegTerms:
        """The weighted total and the three terms without their weights."""
        z = stack_views(views)
        with full_precision(z):
            shard, o = Shard.of(z, gather=self.gather), self.options
            check_samples(shard)
            prediction = prediction_error(z, shard)
            z = shard.gather(z)
            centred = z - z.mean(dim=1, keepdim=True)
            deviations = (centred.square().mean(dim=1, keepdim=True) + o.eps).sqrt()
            scale = (1 - deviations).square().mean()
            sliced = (centred / deviations @ self.slices.directions(z)).sort(dim=1).values
            shape = (sliced - normal_quantiles(sliced).unsqueeze(-1)).square().mean()
            return VISRegTerms(prediction + o.scale_weight * scale + o.shape_weight * shape, prediction, scale, shape)

    def extra_repr(self) -> str:
        o = self.options
        return f"scale_weight={o.scale_weight:g}, shape_weight={o.shape_weight:g}, gather={self.gather}"


def normal_quantiles(sliced: Tensor) -> Tensor:
    """Quantiles of the standard normal distribution at ``(i - 1/2) / b`` for columns ``(..., b, m)``."""
    count = sliced.shape[-2]
    middles = (torch.arange(count, device=sliced.device, dtype=sliced.dtype) + 0.5) / count
    quantiles: Tensor = torch.special.ndtri(middles)
    return quantiles
