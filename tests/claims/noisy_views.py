"""Views as a training has them: the same points, each view with noise of its own."""

from __future__ import annotations

import torch


def views(count: int = 2, b: int = 12, p: int = 5, seed: int = 0) -> list[torch.Tensor]:
    """So many views (b, p) of the same b points, in float64."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(b, p, generator=generator, dtype=torch.float64)
    return [base + 0.3 * torch.randn(b, p, generator=generator, dtype=torch.float64) for _ in range(count)]
