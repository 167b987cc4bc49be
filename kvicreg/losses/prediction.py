"""Losses of a prediction and its target: BYOL, SimSiam, and BYOL in a kernel's feature space."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kvicreg import kernels
from kvicreg.kernels.bandwidth import MEDIAN_ROWS, evenly_spaced
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.cosine import unit_rows
from kvicreg.kernels.pairs import AllPairs, MatchedPairs, SamePoints
from kvicreg.kernels.tensors import full_precision
from kvicreg.losses.kernel_loss import check_approximation
from kvicreg.losses.terms import stack_views
from kvicreg.operators import Approximation
from kvicreg.operators.bandwidth import advance, is_training_step
from kvicreg.operators.shard import Shard

__all__ = ["BYOLLoss", "KernelBYOLLoss", "SimSiamLoss", "byol", "kernel_byol", "simsiam"]


class BYOLLoss(nn.Module):
    """``d(q1, t2) + d(q2, t1)`` with ``d(q, t) = mean_i |q_i / |q_i| - t_i / |t_i||^2`` (BYOL; Grill et al., 2020).

    q ``(b, p)`` are the predictions made from one view, t ``(b, p)`` the target network's projections of the other; no
    gradient reaches t. The loss is a mean over samples, so that its mean over processes is that of the global batch.

    Example:
        >>> BYOLLoss()(*torch.randn(4, 64, 32)).shape
        torch.Size([])
    """

    def forward(self, q1: Tensor, q2: Tensor, t1: Tensor, t2: Tensor) -> Tensor:
        """The loss, a scalar."""
        return byol(q1, q2, t1, t2)


def byol(q1: Tensor, q2: Tensor, t1: Tensor, t2: Tensor) -> Tensor:
    """`BYOLLoss` as a pure function of predictions and targets ``(b, p)``.

    Example:
        >>> byol(*torch.randn(4, 64, 8)).shape
        torch.Size([])
    """
    return 4 + 4 * simsiam(q1, q2, t1, t2)  # |u - v|^2 = 2 - 2 cos(u, v) of unit vectors, summed both ways


class SimSiamLoss(nn.Module):
    """``d(q1, z2) / 2 + d(q2, z1) / 2`` with ``d(q, z) = -mean_i cos(q_i, z_i)`` (SimSiam; Chen and He, 2021).

    q ``(b, p)`` are the predictions made from one view, z ``(b, p)`` the projections of the other, which no gradient
    reaches.

    Example:
        >>> SimSiamLoss()(*torch.randn(4, 64, 32)).shape
        torch.Size([])
    """

    def forward(self, q1: Tensor, q2: Tensor, z1: Tensor, z2: Tensor) -> Tensor:
        """The loss, a scalar."""
        return simsiam(q1, q2, z1, z2)


def simsiam(q1: Tensor, q2: Tensor, z1: Tensor, z2: Tensor) -> Tensor:
    """`SimSiamLoss` as a pure function of predictions and projections ``(b, p)``.

    Example:
        >>> simsiam(*torch.randn(4, 64, 8)).shape
        torch.Size([])
    """
    views = stack_views((q1, q2, z2.detach(), z1.detach()))
    with full_precision(views):
        u = unit_rows(views)
        cosines: Tensor = torch.linalg.vecdot(u[:2], u[2:])
        return -cosines.mean()


class KernelBYOLLoss(nn.Module):
    """``d(q1, t2) + d(q2, t1)``, BYOL's loss between unit vectors of a kernel's feature space, with

        ``d(q, t) = mean_i |phi(q_i) / |phi(q_i)| - phi(t_i) / |phi(t_i)||^2
                  = 2 - 2 mean_i k(q_i, t_i) / sqrt(k(q_i, q_i) k(t_i, t_i))``

    of predictions q and targets t at unit length, as in BYOL. With the linear kernel it is BYOL's; with a bounded
    kernel it is the squared distance of ``phi(q)`` and ``phi(t)``, which stops growing beyond the bandwidth. That is
    taken of predictions and targets as one set of points: at first the two lie much farther from each other than the
    points of either, and a bandwidth taken within each would leave no gradient between them.

    Args:
        kernel: a name or a `Kernel`.
        approximation: None, or an approximation of the kernel. Pairs cost O(bp) without one, so that there is nothing
            to gain beyond comparing with a loss that needs it.
        gather: under `torch.distributed`, the bandwidth and the mean are those of the global batch.

    Example:
        >>> KernelBYOLLoss("rbf")(*torch.randn(4, 64, 32)).shape
        torch.Size([])
    """

    def __init__(
        self, kernel: str | Kernel = "rbf", approximation: Approximation | None = None, gather: bool = True
    ) -> None:
        super().__init__()
        check_approximation(approximation)
        self.kernel, self.approximation, self.gather = kernels.get(kernel), approximation, gather

    def forward(self, q1: Tensor, q2: Tensor, t1: Tensor, t2: Tensor) -> Tensor:
        """The loss, a scalar."""
        if is_training_step(self):
            advance(self.kernel, self.approximation, lambda: [self._points(q1, q2, t1, t2)], gather=False)
        return kernel_byol(q1, q2, t1, t2, kernel=self.kernel, approximation=self.approximation, gather=self.gather)

    def _points(self, *parts: Tensor) -> Tensor:
        """What the bandwidth is taken of, alike in every process."""
        z = unit_rows(stack_views(parts))
        return _pooled_points(z, Shard.of(z, gather=self.gather))

    def extra_repr(self) -> str:
        return f"gather={self.gather}"


def kernel_byol(
    q1: Tensor,
    q2: Tensor,
    t1: Tensor,
    t2: Tensor,
    *,
    kernel: Kernel,
    approximation: Approximation | None = None,
    gather: bool = True,
) -> Tensor:
    """`KernelBYOLLoss` as a pure function of predictions and targets ``(b, p)``.

    Example:
        >>> kernel_byol(*torch.randn(4, 64, 8), kernel=RBF()).shape
        torch.Size([])
    """
    z = unit_rows(stack_views((q1, q2, t2.detach(), t1.detach())))
    with full_precision(z):
        shard = Shard.of(z, gather=gather)
        kernel = kernel.resolve(AllPairs(_pooled_points(z, shard)))
        if approximation is not None:
            u = unit_rows(approximation.features(z, kernel, shard))
            distances = (u[:2] - u[2:]).square().sum(-1)
        else:
            # |a / |a| - b / |b||^2 = (|a - b|^2 - (|a| - |b|)^2) / (|a| |b|), exact where 2 - 2 cos would cancel
            a, b = kernel.evaluate(SamePoints(z)).clamp_min(torch.finfo(z.dtype).tiny).sqrt().chunk(2)
            gaps = kernel.evaluate_distance(MatchedPairs(z[:2], z[2:]))
            distances = (gaps - (a - b).square()) / (a * b)
        return shard.sum(distances.sum()) / shard.total


def _pooled_points(z: Tensor, shard: Shard) -> Tensor:
    """Rows of every part of ``(4, b, p)``, as one set of points, alike in every process and without gradient."""
    return shard.take(z, evenly_spaced(shard.total, MEDIAN_ROWS // len(z), z.device)).flatten(0, 1)
