"""An encoder that fails when it is told to."""

from __future__ import annotations

import torch
from torch import nn


class Poisoned(nn.Module):
    """A small encoder that fails in a chosen way at a chosen call of its training mode."""

    feature_dim = 8

    def __init__(self, calls: int, fail) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Flatten(), nn.Linear(256, 8)
        self.calls, self.fail = calls, fail

    def forward(self, x):
        if self.training:
            self.calls -= 1
            if self.calls == 0:
                return self.fail(self.second(self.first(x)))
        return self.second(self.first(x))
