"""Barlow Twins in a kernel's feature space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.linear import Linear
from kvicreg.kernels.pairs import AllPairs, MatchedPairs
from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.barlow_twins import BarlowTerms, BarlowTwinsOptions, CrossMoments, coordinate_terms
from kvicreg.losses.kernel_loss import KernelLoss
from kvicreg.losses.terms import stack_views
from kvicreg.operators import Approximation
from kvicreg.operators.bandwidth import resolved
from kvicreg.operators.build import check_samples
from kvicreg.operators.shard import Shard
from kvicreg.options import Options, option

__all__ = ["KernelBarlowTwinsLoss", "KernelBarlowTwinsOptions", "kernel_barlow_twins_terms"]

Basis = Literal["free", "coordinates"]


@dataclass(frozen=True, kw_only=True)
class KernelBarlowTwinsOptions(Options):
    """Settings of `KernelBarlowTwinsLoss` beside its kernel and approximation."""

    basis: Literal["free", "coordinates"] = option(
        "free", "How the diagonal is measured: free of any basis, or in the coordinates of explicit features."
    )
    redundancy_weight: float | None = option(
        None, "Weight of the redundancy term; by default 0.1 in the basis free, 0.0051 in coordinates.", at_least=0
    )
    eps: float = option(BarlowTwinsOptions.eps, "Added to variances.", at_least=0)

    @property
    def weight(self) -> float:
        """The weight given, or else the basis's own."""
        if self.redundancy_weight is not None:
            return self.redundancy_weight
        return 0.1 if self.basis == "free" else BarlowTwinsOptions.redundancy_weight


class KernelBarlowTwinsLoss(KernelLoss):
    """``(1 - tr A / r)^2 + redundancy_weight * (|A|_HS^2 / r - (tr A / r)^2)``, Barlow Twins in feature space.

    A is the cross-covariance operator of the views without units: with
    ``C = mean_i (phi(z_i) - mean) (phi(z'_i) - mean')^T``, T and T' the total variances of the views and r the number
    of directions that can vary, ``A = r C / sqrt(T T')``. The terms drive it to the identity on the span:

    - invariance: ``(1 - tr A / r)^2``; ``tr A / r`` is the correlation of the views in feature space
    - redundancy: ``|A|_HS^2 / r - (tr A / r)^2``, zero when A is a multiple of the identity

    and ``r (invariance + redundancy) = |A - I|_HS^2``. That is the basis "free", which needs Gram matrices alone. The
    basis "coordinates" is Barlow Twins itself on the coordinates of explicit features, each standardised: with the
    linear kernel those are the embedding's, and the loss is Barlow Twins'.

    Args:
        kernel: a name or a `Kernel`.
        basis: "free", or "coordinates", which needs the linear kernel or an approximation.
        redundancy_weight: that of the second term; None takes the basis's default, 0.1 or 0.0051.
        eps: added to variances.
        approximation: None (exact), `operators.Nystrom(...)` or `operators.RandomFourier(...)`.
        gather: under `torch.distributed`, the loss of the global batch.

    Example:
        >>> KernelBarlowTwinsLoss("rbf")(torch.randn(64, 32), torch.randn(64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self,
        kernel: str | Kernel = "rbf",
        basis: Basis = KernelBarlowTwinsOptions.basis,
        redundancy_weight: float | None = None,
        eps: float = KernelBarlowTwinsOptions.eps,
        approximation: Approximation | None = None,
        gather: bool = True,
    ) -> None:
        super().__init__(kernel, approximation, gather)
        weight = None if redundancy_weight is None else float(redundancy_weight)
        options = KernelBarlowTwinsOptions(basis=basis, redundancy_weight=weight, eps=float(eps))
        self.basis, self.redundancy_weight, self.eps = basis, options.weight, options.eps
        if basis == "coordinates" and approximation is None and not isinstance(self.kernel, Linear):
            raise ValueError(
                f'basis "coordinates" needs explicit features, which an exact {type(self.kernel).__name__} kernel has '
                'not: pass approximation=operators.Nystrom(...), or basis="free"'
            )

    def terms(self, z1: Tensor, z2: Tensor) -> BarlowTerms:
        """The weighted total, and the two terms without the weight."""
        return kernel_barlow_twins_terms(
            z1,
            z2,
            kernel=self.kernel,
            basis=self.basis,
            weight=self.redundancy_weight,
            eps=self.eps,
            approximation=self.approximation,
            gather=self.gather,
        )

    def extra_repr(self) -> str:
        return f"basis={self.basis!r}, redundancy_weight={self.redundancy_weight:g}, eps={self.eps:g}"


def kernel_barlow_twins_terms(
    z1: Tensor,
    z2: Tensor,
    *,
    kernel: Kernel,
    basis: Basis = KernelBarlowTwinsOptions.basis,
    weight: float | None = None,
    eps: float = KernelBarlowTwinsOptions.eps,
    approximation: Approximation | None = None,
    gather: bool = True,
) -> BarlowTerms:
    """`KernelBarlowTwinsLoss` as a pure function of two views ``(b, p)``.

    Example:
        >>> kernel_barlow_twins_terms(*torch.randn(2, 64, 8), kernel=RBF()).total.shape
        torch.Size([])
    """
    z = stack_views((z1, z2))
    options = KernelBarlowTwinsOptions(basis=basis, redundancy_weight=weight, eps=eps)
    with full_precision(z):
        shard = Shard.of(z, gather=gather)
        check_samples(shard)
        kernel = resolved(kernel, z, shard)
        if approximation is not None:
            features = approximation.features(z, kernel, shard)
        elif isinstance(kernel, Linear):
            features = z * kernel.gamma**0.5
        else:
            return _gram_terms(shard.gather(z), kernel, options.weight, eps)
        moments = CrossMoments(features, shard)
        if basis == "coordinates":
            return coordinate_terms(moments, options.weight, eps)
        trace, norm, variances = moments.products().sum(), moments.squared_norm(), moments.variances().sum(-1)
        r = min(shard.total - 1, features.shape[-1], kernel.rank(z.shape[-1]))
        return _basis_free_terms(trace, norm, variances, r, options.weight, eps)


def _gram_terms(z: Tensor, kernel: Kernel, weight: float, eps: float) -> BarlowTerms:
    """The basis-free terms of views ``(2, b, p)`` from their Gram matrices."""
    b, p = z.shape[1:]
    grams = kernel.evaluate(AllPairs(z))
    cross = kernel.evaluate(AllPairs(z[0], z[1]))
    rows = grams - grams.mean(-1, keepdim=True)
    centred = rows - rows.mean(-2, keepdim=True)
    variances = centred.diagonal(dim1=-2, dim2=-1).mean(-1)
    trace = kernel.evaluate(MatchedPairs(z[0], z[1])).mean() - cross.mean()
    norm = (centred[0] * centred[1]).sum() / b**2
    return _basis_free_terms(trace, norm, variances, min(b - 1, kernel.rank(p)), weight, eps)


def _basis_free_terms(
    trace: Tensor, norm: Tensor, variances: Tensor, r: float, weight: float, eps: float
) -> BarlowTerms:
    """The terms from tr C, |C|_HS^2, the total variance of each view and the number r of directions."""
    scale = (variances + eps).prod().rsqrt()
    correlation = trace * scale  # tr A / r
    invariance = (1 - correlation).square()
    redundancy = r * norm * scale.square() - correlation.square()
    return BarlowTerms(invariance + weight * redundancy, invariance, redundancy)
