"""What losses share that ask embeddings to be distributed like a standard Gaussian: prediction, and random slices."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kvicreg.kernels.tensors import outside_transforms
from kvicreg.operators.shard import Shard

__all__ = ["Slices", "prediction_error"]


def prediction_error(z: Tensor, shard: Shard) -> Tensor:
    """The mean square of a coordinate's difference from the mean over an image's views ``(v, b, p)``."""
    views, _, width = z.shape
    return shard.sum((z - z.mean(0)).square().sum()) / (views * width * shard.total)


class Slices(nn.Module):
    """Random directions, drawn anew at every step of training; all processes draw the same.

    Args:
        count: how many.
        seed: of what is drawn.
    """

    def __init__(self, count: int, seed: int = 0) -> None:
        super().__init__()
        self.count, self.seed, self._step = count, seed, 0

    def advance(self) -> None:
        """The next step's directions."""
        self._step += 1

    def directions(self, z: Tensor) -> Tensor:
        """Unit vectors ``(p, count)`` for embeddings ``(..., p)``."""
        with outside_transforms():
            generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self._step) % 2**63)
            draws = torch.randn(z.shape[-1], self.count, generator=generator)
            unit: Tensor = draws / torch.linalg.vector_norm(draws, dim=0)
            return unit.to(z.device, z.dtype, non_blocking=True)

    # The step is state, but a number of Python's own: reading it from a device at every step would stall it.
    def get_extra_state(self) -> Tensor:
        return torch.tensor(self._step)

    def set_extra_state(self, state: Tensor) -> None:
        self._step = int(state)

    def extra_repr(self) -> str:
        return f"count={self.count}"
