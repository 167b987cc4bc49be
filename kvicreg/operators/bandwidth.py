"""One bandwidth for all views and processes, from a few rows of the global batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kvicreg.kernels.bandwidth import MEDIAN_ROWS, Median, evenly_spaced
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import AllPairs
from kvicreg.kernels.tensors import full_precision, is_concrete
from kvicreg.operators.approximation import Approximation
from kvicreg.operators.shard import Shard

__all__ = ["advance", "is_training_step", "resolved"]


def resolved(kernel: Kernel, views: Sequence[Tensor] | Tensor, shard: Shard) -> Kernel:
    """The kernel with the bandwidth of these views ``(b, p)``, alike in every process."""
    return kernel.resolve(_some_rows(views, shard))


def advance(
    kernel: Kernel,
    approximation: Approximation | None,
    views: Callable[[], Sequence[Tensor] | Tensor],
    *,
    gather: bool,
) -> None:
    """One training step: smoothed bandwidths follow the views ``(b, p)``, an approximation draws anew if it does.

    `views` are asked for only where something is smoothed.
    """
    if approximation is not None:
        approximation.advance()
    if any(isinstance(part, Median) and part.momentum for part in kernel.modules()):
        points = views()
        with full_precision(points[0]):
            kernel.advance(_some_rows(points, Shard.of(points[0], gather=gather)))


def is_training_step(module: torch.nn.Module) -> bool:
    """Whether a call of this loss is a step of training: in training mode, with gradients, not inside torch.func."""
    compiling = torch.compiler.is_compiling()
    return module.training and torch.is_grad_enabled() and (compiling or is_concrete())


def _some_rows(views: Sequence[Tensor] | Tensor, shard: Shard) -> AllPairs:
    return AllPairs(shard.take(views, evenly_spaced(shard.total, MEDIAN_ROWS, views[0].device)))
