"""What the kernel family shares: one bandwidth for all views and processes, unit vectors in feature space."""

from __future__ import annotations

import torch
from torch import Tensor

from kvicreg.kernels.bandwidth import MEDIAN_ROWS, evenly_spaced
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import AllPairs
from kvicreg.operators import Approximation
from kvicreg.operators.shard import Shard

__all__ = ["check_approximation", "resolved", "unit_rows"]


def check_approximation(approximation: object) -> None:
    """Refuse what is neither None nor an approximation."""
    if approximation is not None and not isinstance(approximation, Approximation):
        raise TypeError(
            "approximation must be None, operators.Nystrom(...) or operators.RandomFourier(...), "
            f"got {type(approximation).__name__}"
        )


def resolved(kernel: Kernel, z: Tensor, shard: Shard) -> Kernel:
    """The kernel with this step's bandwidth, from all views ``(v, b, p)`` and alike in every process."""
    return kernel.resolve(AllPairs(shard.take(z, evenly_spaced(shard.total, MEDIAN_ROWS, z.device))))


def unit_rows(z: Tensor) -> Tensor:
    """Rows at unit length; a row of zeros stays zero, with a gradient of zero."""
    lengths = torch.linalg.vecdot(z, z).unsqueeze(-1)
    zero = lengths == 0
    return z * torch.where(zero, 0.0, torch.where(zero, 1.0, lengths).rsqrt())
