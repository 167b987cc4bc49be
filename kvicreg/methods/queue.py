"""A queue of embeddings from former batches."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kvicreg.operators.shard import Shard


class Queue(nn.Module):
    """The last `size` embeddings ``(size, width)`` of the global batches, alike in every process; random at first."""

    entries: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.written = 0  # a number of Python's own, so that no device is waited for
        self.register_buffer("entries", F.normalize(torch.randn(size, width)))

    @property
    def full(self) -> bool:
        """Whether nothing of the random start is left."""
        return self.written >= self.size

    @torch.no_grad()
    def push(self, embeddings: Tensor) -> None:
        """Replace the oldest entries by this batch ``(b, width)``, of all processes."""
        newest = Shard.of(embeddings, gather=True).gather(embeddings.detach())[-self.size :]
        places = (self.written + torch.arange(len(newest), device=newest.device)) % self.size
        self.entries.index_copy_(0, places, newest.to(self.entries))
        self.written += len(newest)

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.written)

    def set_extra_state(self, state: Tensor) -> None:
        self.written = int(state)
