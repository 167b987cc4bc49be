"""W-MSE (Ermolov et al., 2021): views that agree after each has been whitened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from kvicreg.kernels.cosine import unit_rows
from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.terms import TermsLoss, stack_views
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = ["WMSELoss", "WMSEOptions", "WMSETerms", "whitened"]


class WMSETerms(NamedTuple):
    """The loss, and the cosine that it is made of."""

    total: Tensor
    cosine: Tensor


@dataclass(frozen=True, kw_only=True)
class WMSEOptions(Options):
    """Settings of `WMSELoss`."""

    eps: float = option(1e-3, "Share of the identity in the covariance that is inverted.", above=0, below=1)


class WMSELoss(TermsLoss):
    """``mean_i |u_i - u'_i|^2`` of whitened embeddings at unit length.

    ``w = L^-1 (z - mean)`` with ``L L^T = (1 - eps) C + eps I`` (Cholesky) of the covariance C of a view over the
    batch, and ``u = w / |w|``. Whitened embeddings can't collapse, so there is nothing else to ask for. With more than
    two views it is the mean over their pairs. The batch must be larger than the embeddings are wide, by far as
    published: of a smaller one whitening leaves nothing to tell images apart by.

    Args:
        eps: share of the identity.
        gather: under `torch.distributed`, the loss of the global batch.

    Example:
        >>> WMSELoss()(torch.randn(64, 16), torch.randn(64, 16)).shape
        torch.Size([])
    """

    def __init__(self, eps: float = WMSEOptions.eps, gather: bool = True) -> None:
        super().__init__()
        self.options, self.gather = WMSEOptions(eps=eps), gather

    def terms(self, *views: Tensor) -> WMSETerms:
        """The loss, and the mean cosine of two views of an image after whitening."""
        z = stack_views(views)
        with full_precision(z):
            shard = Shard.of(z, gather=self.gather)
            if shard.total <= z.shape[-1]:
                raise ValueError(
                    f"W-MSE whitens embeddings of width {z.shape[-1]} over a batch of {shard.total}, which must be "
                    "larger: pass a narrower projector, such as --projector-outputs 64, or a larger batch"
                )
            u, count = unit_rows(whitened(shard.gather(z), self.options.eps)), len(z)
            # the mean over pairs, from the squared length of the sum
            cosine = (u.sum(0).square().sum(-1).mean() - count) / (count * (count - 1))
            return WMSETerms(2 - 2 * cosine, cosine)

    def extra_repr(self) -> str:
        return f"eps={self.options.eps:g}, gather={self.gather}"


def whitened(z: Tensor, eps: float) -> Tensor:
    """Views ``(v, b, p)``, each with mean 0 and, but for eps, the identity as its covariance."""
    centred = z - z.mean(dim=1, keepdim=True)
    identity = torch.eye(z.shape[-1], device=z.device, dtype=z.dtype)
    covariance = torch.lerp(centred.mT @ centred / (z.shape[1] - 1), identity, eps)
    lower = torch.linalg.cholesky(covariance)
    rows: Tensor = torch.linalg.solve_triangular(lower, centred.mT, upper=False).mT
    return rows
