"""One operator for all views: the covariance of the mean over an image's views of their features.

With ``phi_bar_i`` the mean over the views v of ``phi(z_i^v)``, its Gram matrix is the mean of all V x V blocks of
kernel values, and ``C_bar`` its centred covariance. With T the mean total variance of the views, ``T - tr C_bar`` is
the mean over images of the variance of their views, less what all images' views have in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.linear import Linear
from kvicreg.kernels.pairs import AllPairs, ViewPairs
from kvicreg.operators.approximation import Approximation
from kvicreg.operators.build import check_samples, explicit_features, sized
from kvicreg.operators.covariance import CovarianceOperator
from kvicreg.operators.shard import Shard

__all__ = ["shared_operator"]


def shared_operator(
    views: Sequence[Tensor],
    kernel: Kernel,
    approximation: Approximation | None = None,
    gather: bool = True,
    unit: bool = False,
    centred: bool = True,
) -> tuple[CovarianceOperator, Tensor]:
    """``C_bar`` of the views ``(b, p)``, and ``T``; one eigendecomposition serves any number of views.

    With `unit` the kernel is divided by its value at unit-variance input. Without `centred` it is the second moment of
    the views' mean, around zero; ``T`` is the same. The cost of explicit features (of the linear
    kernel or an approximation) grows with the number of views; exact kernels have a block for each pair of views.

    Example:
        >>> from kvicreg import kernels
        >>> z = torch.randn(16, 4)
        >>> operator, total = shared_operator([z, z], kernels.Linear())
        >>> torch.allclose(operator.trace(), total)
        True
    """
    shard = Shard.of(views[0], gather=gather)
    check_samples(shard)
    kernel = kernel.unit(views[0].shape[-1]) if unit else kernel
    rank = kernel.rank(views[0].shape[-1])
    if approximation is None and not isinstance(kernel, Linear):
        return _of_gram(tuple(views), kernel, rank, shard, centred)
    _, features, scale = explicit_features(tuple(views), kernel, approximation, shard)
    return _of_features(features, rank, scale, shard, centred)


def _of_gram(
    views: tuple[Tensor, ...], kernel: Kernel, rank: float, shard: Shard, centred: bool
) -> tuple[CovarianceOperator, Tensor]:
    views, shard = shard.whole(views)
    within = ViewPairs(views).within
    kernel = kernel.resolve(within)
    blocks, size = sized(kernel.evaluate(within), kernel, shard)  # (V, b, b)
    total = (blocks.diagonal(dim1=-2, dim2=-1).mean(-1) - blocks.mean((-2, -1))).mean() * size
    gram = blocks.sum(0)
    for x, y in combinations(views, 2):
        cross = kernel.evaluate(AllPairs(x, y)) / size
        gram = gram + cross + cross.mT
    return CovarianceOperator.from_symmetric(gram / len(views) ** 2, rank, size, centred=centred), total


def _of_features(
    features: Tensor, rank: float, scale: float | Tensor, shard: Shard, centred: bool
) -> tuple[CovarianceOperator, Tensor]:
    with torch.no_grad():  # a variance has no gradient through the mean
        mean = shard.sum(features.sum(dim=-2, keepdim=True)) / shard.total
    total = shard.sum((features - mean).square().sum()) * scale / (shard.total * len(features))
    mean_features = features.mean(0)
    operator = CovarianceOperator.from_features(mean_features, shard=shard, rank=rank, scale=scale, centred=centred)
    return operator, total
