"""VICReg as others compute it: what the cost of our losses is measured against."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import mse_loss, relu

__all__ = ["METRIC_LEARNING", "PUBLISHED", "peers", "published_vicreg"]

PUBLISHED, METRIC_LEARNING = "published", "metric-learning"
"""Names of the peers: the form of the method's published code, and the loss of pytorch-metric-learning."""

Loss = Callable[[Tensor, Tensor], Tensor]


def peers() -> dict[str, Loss]:
    """The peers by name; that of pytorch-metric-learning only where it is installed."""
    losses: dict[str, Loss] = {PUBLISHED: published_vicreg}
    try:
        from pytorch_metric_learning.losses import VICRegLoss
    except ImportError:
        return losses
    criterion = VICRegLoss()
    return losses | {METRIC_LEARNING: lambda one, two: criterion(one, ref_emb=two)}


def published_vicreg(one: Tensor, two: Tensor) -> Tensor:
    """VICReg of two views (b, p), with the weights 25, 25 and 1 and in the few operations of the published code.

    ``25 mean (z - z')^2 + 25 mean over views and j of [1 - sd_j]_+ + sum over views of sum_{j != k} C_jk^2 / p``, with
    ``sd_j = sqrt(Var(z_.j) + 1e-4)`` and C the covariance matrix, both over b - 1.
    """
    batch, width = one.shape
    loss = 25 * mse_loss(one, two)
    for view in (one, two):
        centred = view - view.mean(dim=0)
        deviations = torch.sqrt(centred.var(dim=0) + 1e-4)
        covariance = centred.T @ centred / (batch - 1)
        loss = loss + 25 * relu(1 - deviations).mean() / 2 + _off_diagonal(covariance).square().sum() / width
    return loss


def _off_diagonal(matrix: Tensor) -> Tensor:
    """The entries beside the diagonal of a square matrix (p, p), (p - 1, p) of them, without a copy or a mask.

    After the first entry the rest lies in p - 1 rows of p + 1, each with an entry of the diagonal at its end.
    """
    side = len(matrix)
    return matrix.flatten()[1:].view(side - 1, side + 1)[:, :-1]
