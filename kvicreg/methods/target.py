"""The target network: a slow copy of the online one (momentum encoder, teacher)."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn


class Target(nn.Module):
    """A copy of modules, applied one after the other, that follows them: ``t <- m t + (1 - m) online``.

    It has no gradient. Its normalisation layers see its own batches, in training mode, and keep their own statistics.
    """

    def __init__(self, *online: nn.Module) -> None:
        super().__init__()
        self.copies = nn.ModuleList(copy.deepcopy(module) for module in online).requires_grad_(False)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        for module in self.copies:
            x = module(x)
        return x

    @torch.no_grad()
    def follow(self, *online: nn.Module, momentum: float) -> None:
        """Move every weight towards that of the modules it is a copy of."""
        sources = [p.detach() for module in online for p in module.parameters()]
        torch._foreach_lerp_(list(self.copies.parameters()), sources, 1 - momentum)


def rising(start: float, step: int, total_steps: int) -> float:
    """``1 - (1 - start) (cos(pi step / total) + 1) / 2``: from `start` to 1 along half a cosine, BYOL's schedule."""
    return 1 - (1 - start) * (math.cos(math.pi * min(1.0, step / total_steps)) + 1) / 2
