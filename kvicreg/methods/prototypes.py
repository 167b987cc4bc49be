"""Prototypes: the directions that SwAV's and DINO's embeddings are scored against."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Prototypes(nn.Module):
    """Scores ``cos(z_i, c_k)``, (b, count), of embeddings (b, width); no gradient reaches the c while `frozen`."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(F.normalize(torch.randn(count, width)))

    def forward(self, z: Tensor, *, frozen: bool = False) -> Tensor:
        weight = F.normalize(self.weight)
        if frozen:
            weight = weight.detach() + 0 * weight  # a gradient of zero: DDP waits for one
        return F.linear(F.normalize(z), weight)
