"""Layers' widths, and normalisation by name: "batch" as published, "group" where no statistic may cross samples."""

from __future__ import annotations

import math

from torch import nn


def norm2d(norm: str, channels: int) -> nn.Module:
    """BatchNorm2d, or GroupNorm with at most 8 groups: images (b, channels, h, w)."""
    return nn.BatchNorm2d(channels) if _is_batch(norm) else nn.GroupNorm(math.gcd(8, channels), channels)


def norm1d(norm: str, channels: int) -> nn.Module:
    """BatchNorm1d, or LayerNorm: vectors (b, channels)."""
    return nn.BatchNorm1d(channels) if _is_batch(norm) else nn.LayerNorm(channels)


def scaled(channels: int, width: float) -> int:
    """channels * width, rounded to a multiple of 8 as convolutions like it."""
    return max(8, 8 * round(channels * width / 8))


def _is_batch(norm: str) -> bool:
    if norm not in ("batch", "group"):
        raise ValueError(f"norm must be 'batch' or 'group', got {norm!r}")
    return norm == "batch"
