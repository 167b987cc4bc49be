"""FroSSL (Skean et al., 2024): a small Frobenius norm of the second moment, and views that agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from kvicreg.losses.spectral import SpectralLoss
from kvicreg.options import Options, option

__all__ = ["FroSSLLoss", "FroSSLOptions", "FroSSLTerms"]


class FroSSLTerms(NamedTuple):
    """`total` is weighted, the terms are not."""

    total: Tensor
    invariance: Tensor
    log_norm: Tensor


@dataclass(frozen=True, kw_only=True)
class FroSSLOptions(Options):
    """Settings of `FroSSLLoss` beside its kernel and approximation."""

    invariance_weight: float = option(1.0, "Weight of the invariance term.", at_least=0)


class FroSSLLoss(SpectralLoss):
    """``mean_v log |rho_v|_F^2 + invariance_weight * mean_v mean_i |phi(z_i^v) - mean of its views|^2``.

    ``rho_v`` is the second moment of a view at unit length in feature space. It takes no eigendecomposition: of a
    spectrum with sum 1, the norm is smallest where it is flat.

    Example:
        >>> FroSSLLoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    Options = FroSSLOptions

    def of_views(self, views: Sequence[Tensor]) -> FroSSLTerms:
        """The terms of views that were checked."""
        both = self.at_unit_length(views)
        tiny = torch.finfo(views[0].dtype).tiny
        norm = both.operator.squared_hs_norm() / both.operator.trace().square().clamp_min(tiny)
        log_norm = norm.clamp_min(tiny).log().mean()
        invariance = (1 - 1 / len(views)) * (1 - both.mean(both.cosines()))
        return FroSSLTerms(log_norm + self.options.invariance_weight * invariance, invariance, log_norm)
