"""The learning rate: warm-up, then half a cosine, as a pure function of the step."""

from __future__ import annotations

import math

__all__ = ["learning_rate"]


def learning_rate(step: float, *, total: int, warmup: float, peak: float, final: float = 0.0) -> float:
    """Linear from 0 over `warmup` steps, then peak to final along half a cosine; `step` counts from 0."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    progress = min(1.0, (step - warmup) / max(1.0, total - warmup))
    return final + (peak - final) * 0.5 * (1 + math.cos(math.pi * progress))
