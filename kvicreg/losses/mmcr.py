"""MMCR (Yerxa et al., 2023): a large nuclear norm of the images' mean embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from kvicreg.kernels.cosine import unit_views
from kvicreg.kernels.distances import safe_sqrt
from kvicreg.losses.spectral import SpectralLoss
from kvicreg.operators import shared_operator
from kvicreg.options import Options

__all__ = ["MMCRLoss", "MMCROptions", "MMCRTerms"]


ROUND_OFFS = 8
"""Units in the last place of the largest eigenvalue up to which another is zero: the root of noise is steep."""


class MMCRTerms(NamedTuple):
    """The loss, and the norm that it is the negative of."""

    total: Tensor
    nuclear_norm: Tensor


@dataclass(frozen=True, kw_only=True)
class MMCROptions(Options):
    """`MMCRLoss` has no setting beside its kernel and approximation."""


class MMCRLoss(SpectralLoss):
    """``-|M|_*``, the sum of the singular values of the matrix M ``(b, p)`` of mean embeddings.

    A row of M is the mean over an image's views of ``phi(z)`` at unit length. Long means are of views that agree; of
    means of one length the norm is largest where they are orthogonal. One eigendecomposition for any number of views.

    Example:
        >>> MMCRLoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    Options = MMCROptions

    def of_views(self, views: Sequence[Tensor]) -> MMCRTerms:
        """The terms of views that were checked."""
        points, kernel = unit_views(views, self.kernel)
        operator, _ = shared_operator(points, kernel, self.approximation, self.gather, centred=False)
        values = operator.eigenvalues() * operator.samples
        floor = ROUND_OFFS * torch.finfo(values.dtype).eps * values.detach().amax()
        norm = safe_sqrt(torch.where(values > floor, values, 0.0)).sum()
        return MMCRTerms(-norm, norm)
