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
    def follow(self, *online: nn.Module, momentum: float, buffers: bool = False) -> None:
        """Move every weight towards that of the modules it is a copy of, and their statistics, if `buffers`."""
        sources = [p.detach() for module in online for p in module.parameters()]
        copies: list[Tensor] = list(self.copies.parameters())
        if buffers:
            sources += [b for module in online for b in module.buffers() if b.is_floating_point()]
            copies += [b for b in self.copies.buffers() if b.is_floating_point()]
        torch._foreach_lerp_(copies, sources, 1 - momentum)


def rising(start: float, step: int, total_steps: int) -> float:
    """``1 - (1 - start) (cos(pi step / total) + 1) / 2``: from `start` to 1 along half a cosine, BYOL's schedule."""
    return 1 - (1 - start) * (math.cos(math.pi * min(1.0, step / total_steps)) + 1) / 2
