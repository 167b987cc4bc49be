"""SSL-HSIC (Li et al., 2021): embeddings that depend on which image they are of, and on little else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from kvicreg import kernels
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.cosine import unit_rows
from kvicreg.kernels.distances import safe_sqrt
from kvicreg.kernels.pairs import AllPairs, MatchedPairs
from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.kernel_loss import check_approximation
from kvicreg.losses.terms import TermsLoss, stack_views
from kvicreg.operators import Approximation, CovarianceOperator
from kvicreg.operators.bandwidth import advance, resolved
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = ["HSICTerms", "SSLHSICLoss", "SSLHSICOptions", "ssl_hsic_terms"]


class HSICTerms(NamedTuple):
    """`total` is weighted, the two terms are not: HSIC(Z, Y) and HSIC(Z, Z)."""

    total: Tensor
    hsic_zy: Tensor
    hsic_zz: Tensor


@dataclass(frozen=True, kw_only=True)
class SSLHSICOptions(Options):
    """Settings of `SSLHSICLoss` beside its kernel and approximation."""

    hsic_weight: float = option(3.0, "Weight of the root of HSIC(Z, Z).", at_least=0)


class SSLHSICLoss(TermsLoss):
    """``-HSIC(Z, Y) + hsic_weight * sqrt(HSIC(Z, Z))`` of embeddings at unit length, Y being the identity of the image.

    With n = 2b embeddings of two views and K their Gram matrix, in the paper's estimators (less constant factors):

    - HSIC(Z, Y), how much embeddings depend on the image: ``mean_i k(z_i, z'_i) - mean of all n^2 entries of K``
    - HSIC(Z, Z), how much they vary: ``tr(K H K H) / (n - 1)^2``

    Args:
        kernel: a name or a `Kernel`; None is the paper's inverse multiquadric, ``1 / sqrt(1 + |x - y|^2)``.
        hsic_weight: 3 as published.
        approximation: None (exact), `operators.Nystrom(...)` or `operators.RandomFourier(...)`.
        gather: under `torch.distributed`, the loss of the global batch.

    Example:
        >>> SSLHSICLoss()(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self,
        kernel: str | Kernel | None = None,
        hsic_weight: float = SSLHSICOptions.hsic_weight,
        approximation: Approximation | None = None,
        gather: bool = True,
    ) -> None:
        super().__init__()
        check_approximation(approximation)
        # not `kernel`: its scale is meant for unit vectors, and says nothing about the embeddings themselves
        self.unit_kernel = kernels.InverseMultiquadric() if kernel is None else kernels.get(kernel)
        self.hsic_weight = SSLHSICOptions(hsic_weight=float(hsic_weight)).hsic_weight
        self.approximation, self.gather = approximation, gather

    def advance(self, *views: Tensor) -> None:
        """Let smoothed bandwidths follow the views, and an approximation draw anew if it does."""
        advance(self.unit_kernel, self.approximation, lambda: unit_rows(stack_views(views)), gather=self.gather)

    def terms(self, z1: Tensor, z2: Tensor) -> HSICTerms:
        """The weighted total, HSIC(Z, Y) and HSIC(Z, Z)."""
        return ssl_hsic_terms(
            z1,
            z2,
            kernel=self.unit_kernel,
            hsic_weight=self.hsic_weight,
            approximation=self.approximation,
            gather=self.gather,
        )

    def extra_repr(self) -> str:
        return f"hsic_weight={self.hsic_weight:g}, gather={self.gather}"


def ssl_hsic_terms(
    z1: Tensor,
    z2: Tensor,
    *,
    kernel: Kernel | None = None,
    hsic_weight: float = SSLHSICOptions.hsic_weight,
    approximation: Approximation | None = None,
    gather: bool = True,
) -> HSICTerms:
    """`SSLHSICLoss` as a pure function of two views ``(b, p)``.

    Example:
        >>> ssl_hsic_terms(*torch.randn(2, 64, 8)).total.shape
        torch.Size([])
    """
    z = unit_rows(stack_views((z1, z2)))
    with full_precision(z):
        shard = Shard.of(z, gather=gather)
        n = 2 * shard.total
        kernel = resolved(kernel or kernels.InverseMultiquadric(), z, shard)
        mean_of_pairs = shard.sum(kernel.evaluate(MatchedPairs(z[0], z[1])).sum()) / shard.total
        if approximation is None:
            gram = kernel.evaluate(AllPairs(shard.gather(z).flatten(0, 1)))
            operator, mean_of_all = CovarianceOperator.from_gram(gram), gram.mean()
        else:
            features = approximation.features(z, kernel, shard).flatten(0, 1)
            pooled = Shard.of(features, gather=gather)
            operator = CovarianceOperator.from_features(features, shard=pooled)
            mean_of_all = (pooled.sum(features.sum(0)) / n).square().sum()
        hsic_zy = mean_of_pairs - mean_of_all
        hsic_zz = operator.squared_hs_norm() * (n / (n - 1)) ** 2
        return HSICTerms(hsic_weight * safe_sqrt(hsic_zz) - hsic_zy, hsic_zy, hsic_zz)
