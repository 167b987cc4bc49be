"""One bandwidth for all views and processes, from a few rows of the global batch."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from kvicreg.kernels.bandwidth import MEDIAN_ROWS, evenly_spaced
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import AllPairs
from kvicreg.operators.shard import Shard

__all__ = ["resolved"]


def resolved(kernel: Kernel, views: Sequence[Tensor] | Tensor, shard: Shard) -> Kernel:
    """The kernel with this step's bandwidth, from all views ``(b, p)`` and alike in every process."""
    return kernel.resolve(AllPairs(shard.take(views, evenly_spaced(shard.total, MEDIAN_ROWS, views[0].device))))
