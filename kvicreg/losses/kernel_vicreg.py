"""Kernel VICReg: invariance, variance and covariance in a reproducing kernel Hilbert space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kvicreg.kernels.bandwidth import Median
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.groups import group_views
from kvicreg.losses.kernel_loss import KernelLoss
from kvicreg.losses.mixture import constant_shares, is_learnt, pairs_objective
from kvicreg.losses.terms import LossTerms, check_views, setting, told_weights, with_settings
from kvicreg.losses.three_terms import (
    CovarianceForm,
    KernelVICRegOptions,
    MixtureRule,
    Parametrization,
    SolverChoice,
    Spectrum,
    shared_terms,
    three_terms,
)
from kvicreg.operators import Approximation, shared_operator, view_operators
from kvicreg.operators.bandwidth import resolved
from kvicreg.operators.shard import Shard

__all__ = ["KernelVICRegLoss", "KernelVICRegOptions", "kernel_vicreg_terms"]


class KernelVICRegLoss(KernelLoss):
    """``alpha * invariance + beta * variance + zeta * covariance``, each in the feature space of a kernel.

    With ``C`` the centred covariance operator of a view and ``lambda_i`` its eigenvalues:

    - invariance: ``mean_i |phi(z_i) - phi(z'_i)|^2``
    - variance: ``mean_i [threshold - sqrt(lambda_i + eps)]_+^2``, added up over the views
    - covariance: ``|C|_HS``, added up over the views

    The "paper" parametrization is exactly that, for two views; of more it is the mean over all pairs of views.

    "scaled", the default, measures the same three quantities against the total variance, so that one triple of weights
    serves every kernel, bandwidth, batch size and width, and takes one spectrum and one eigendecomposition for all
    views (``spectrum="shared"``): that of ``C_bar``, the covariance of the mean over an image's views of ``phi``. With
    T the mean over the views of ``tr C`` and r the number of directions that can vary:

    - invariance: ``1 - tr C_bar / T``, the share of variance that views of one image do not share: 0 for views that
      agree, 1/2 for two that have nothing in common
    - variance: the hinge of ``sqrt(r lambda_i(C_bar) / T + eps)``, which a flat spectrum makes 1
    - covariance: ``sqrt(r) |C_bar|_HS / T``, which a flat spectrum makes 1

    ``spectrum="per-view"`` scales the paper's own terms instead, with a spectrum for each view: the invariance is
    ``mean_i |phi(z_i) - phi(z'_i)|^2 / tr C``, up to 2, the others are added up over two views, and the cost grows with
    the number of views and not with its square.

    With `groups`, a whole number for each row, variance and covariance are also those within each group, every group
    counting the same: ``(1 - group_weight) * whole batch + group_weight * mean over the groups``. Groups with fewer
    than two members in the (global) batch are left out.

    Args:
        kernel: a name ("linear", "polynomial", "rbf", "laplacian", "rational_quadratic" or "rq") or a `Kernel`.
        parametrization: "scaled" or "paper".
        invariance_weight, variance_weight, covariance_weight: alpha, beta and zeta; None takes the parametrization's.
        threshold: the standard deviation to reach; None takes the parametrization's: 1 as in VICReg, or 1.5 times
            that of a flat spectrum when scaled, so that directions above the average are held down by the others.
        eps: added to variances under the root.
        covariance: "norm" or "squared".
        include_diagonal: the full Hilbert-Schmidt norm, or the paper's, which leaves out the diagonal of the Gram
            matrix.
        approximation: None (exact), `operators.Nystrom(landmarks=m)` or `operators.RandomFourier(features=D)`.
        gather: under `torch.distributed`, the loss of the global batch (with gradients that are right after DDP's
            averaging); False keeps to the local batch.
        group_weight: the groups' share of variance and covariance, where `groups` are given: 0 to 1.
        group_bandwidth: the bandwidth of each group on its own, instead of one for all.
        learn_mixture_by: where the kernel is a learnable mixture, what its shares follow: "pairs", how well each member
            tells two views of an image from two images, or "loss", which flees into the easiest member; see
            `losses.mixture`.
        spectrum: "shared" (scaled only) or "per-view"; None takes the parametrization's: the first, or the paper's.
        solver: where eigenvalues come from: "eigh", on the device of the views; "cpu", beside it; "products", which
            takes matrix products alone and is accurate to about a thousandth; or "auto", which times them once for
            each size and takes the fastest.

    `loss(z1, z2)` in training mode with gradients enabled is a step of training, in which smoothed bandwidths move;
    `terms` changes nothing. The settings are kept together in `options`.

    Shape:
        Views ``(b, p)``, two or more, all of one shape; the result is a scalar of at least float32.

    Example:
        >>> criterion = KernelVICRegLoss(kernel="rbf")
        >>> z1, z2 = torch.randn(64, 32, requires_grad=True), torch.randn(64, 32)
        >>> criterion(z1, z2).backward()
        >>> criterion.terms(z1, z2)._fields
        ('total', 'invariance', 'variance', 'covariance')
    """

    def __init__(
        self,
        kernel: str | Kernel = "rbf",
        parametrization: Parametrization = "scaled",
        invariance_weight: float | None = None,
        variance_weight: float | None = None,
        covariance_weight: float | None = None,
        threshold: float | None = None,
        eps: float = 1e-4,
        covariance: CovarianceForm = "norm",
        include_diagonal: bool = False,
        approximation: Approximation | None = None,
        gather: bool = True,
        group_weight: float = 0.5,
        group_bandwidth: bool = False,
        learn_mixture_by: MixtureRule = "pairs",
        spectrum: Spectrum | None = None,
        solver: SolverChoice = "eigh",
    ) -> None:
        super().__init__(kernel, approximation, gather)
        self.options = KernelVICRegOptions(
            parametrization=parametrization,
            invariance_weight=invariance_weight,
            variance_weight=variance_weight,
            covariance_weight=covariance_weight,
            threshold=threshold,
            eps=eps,
            covariance=covariance,
            include_diagonal=include_diagonal,
            group_weight=group_weight,
            group_bandwidth=group_bandwidth,
            learn_mixture_by=learn_mixture_by,
            spectrum=spectrum,
            solver=solver,
        ).resolved()
        if group_bandwidth and any(isinstance(m, Median) and m.momentum for m in self.kernel.modules()):
            raise ValueError("group_bandwidth takes each group's own bandwidth, so it can't go with a smoothed one")

    parametrization = setting("parametrization")
    invariance_weight = setting("invariance_weight")
    variance_weight = setting("variance_weight")
    covariance_weight = setting("covariance_weight")
    threshold, eps = setting("threshold"), setting("eps")
    covariance, include_diagonal = setting("covariance"), setting("include_diagonal")
    group_weight, group_bandwidth = setting("group_weight"), setting("group_bandwidth")
    learn_mixture_by, spectrum, solver = setting("learn_mixture_by"), setting("spectrum"), setting("solver")

    def terms(self, *views: Tensor, groups: Tensor | None = None) -> LossTerms:
        """The weighted total and the three terms without their weights."""
        return kernel_vicreg_terms(
            *views,
            kernel=self.kernel,
            options=self.options,
            approximation=self.approximation,
            gather=self.gather,
            groups=groups,
        )

    def extra_repr(self) -> str:
        o = self.options
        return (
            f"parametrization={o.parametrization!r}, spectrum={o.spectrum!r}, {told_weights(o.weights)}, "
            f"threshold={o.threshold:g}, eps={o.eps:g}, "
            f"covariance={o.covariance!r}, include_diagonal={o.include_diagonal}, gather={self.gather}"
        )


# -- the loss of views: groups and learnt mixtures go around the three terms -----------------------------------------


def kernel_vicreg_terms(
    *views: Tensor,
    kernel: Kernel,
    options: KernelVICRegOptions | None = None,
    approximation: Approximation | None = None,
    gather: bool = True,
    groups: Tensor | None = None,
    **settings: Any,
) -> LossTerms:
    """`KernelVICRegLoss` as a pure function of the views ``(b, p)``.

    The settings are given as `options`, or one by one under the names that they have there.

    Example:
        >>> kernel_vicreg_terms(*torch.randn(2, 64, 8), kernel=RBF(), threshold=1.0).total.shape
        torch.Size([])
    """
    options = with_settings(options or KernelVICRegOptions(), settings)
    checked = check_views(views)
    with full_precision(checked[0]):
        gain = None
        if is_learnt(kernel) and options.learn_mixture_by == "pairs":
            gain = pairs_objective(kernel, checked, Shard.of(checked[0], gather=gather), unit=options.scaled)
            kernel = constant_shares(kernel)
        if groups is None:
            terms = _batch_terms(checked, kernel, options, approximation, gather)
        else:
            terms = _group_terms(checked, groups, kernel, options, approximation, gather)
        # the shares of a mixture follow what they are to gain: a gradient for them, and no change of the value
        return terms if gain is None else terms._replace(total=terms.total - (gain - gain.detach()).to(terms.total))


def _batch_terms(
    views: Sequence[Tensor],
    kernel: Kernel,
    options: KernelVICRegOptions,
    approximation: Approximation | None,
    gather: bool,
) -> LossTerms:
    if options.shares_spectrum:
        operator, total = shared_operator(views, kernel, approximation, gather, unit=options.scaled)
        return shared_terms(operator, total, options)
    operator, distance = view_operators(views, kernel, approximation, gather, unit=options.scaled)
    return three_terms(operator, distance, options)  # in two lines: torch 2.5 can't compile the starred call


def _group_terms(
    views: Sequence[Tensor],
    groups: Tensor,
    kernel: Kernel,
    options: KernelVICRegOptions,
    approximation: Approximation | None,
    gather: bool,
) -> LossTerms:
    """The terms of the batch, its variance and covariance shared with those within each group."""
    fixed = resolved(kernel, views, Shard.of(views[0], gather=gather))  # groups share the bandwidth of the batch
    whole = _batch_terms(views, fixed, options, approximation, gather)
    parts = group_views(views, groups, gather=gather)
    of_group = kernel if options.group_bandwidth else fixed
    within = [_batch_terms(part, of_group, options, approximation, False) for part in parts]
    if not within:
        return whole
    variance = torch.lerp(whole.variance, torch.stack([t.variance for t in within]).mean(), options.group_weight)
    covariance = torch.lerp(whole.covariance, torch.stack([t.covariance for t in within]).mean(), options.group_weight)
    return LossTerms.weighted(options.weights, whole.invariance, variance, covariance)
