"""Uncertainty over test images: bootstrap of a mean, and of the difference of two means on the same images.

The randomness covered is that of the test images alone; that of training needs several seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Interval(NamedTuple):
    """A mean and the bounds of its confidence interval."""

    value: float
    low: float
    high: float


class PairedDifference(NamedTuple):
    """mean(a) - mean(b) on the same images, its interval, and the two-sided p-value of no difference."""

    difference: float
    low: float
    high: float
    p_value: float


def bootstrap_interval(scores: Tensor, *, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Interval:
    """Percentile bootstrap of the mean of scores (m,).

    Example:
        >>> interval = bootstrap_interval(torch.tensor([1.0, 0.0, 1.0, 1.0]))
        >>> interval.low <= interval.value <= interval.high
        True
    """
    values = _values(scores, "scores")
    return Interval(float(values.mean()), *bounds(_resampled_means(values, resamples, seed), level))


def paired_bootstrap(
    a: Tensor, b: Tensor, *, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> PairedDifference:
    """Bootstrap of mean(a - b): the same test images are drawn for both, so what is easy for both cancels.

    The p-value is twice the smaller share of resampled differences on either side of zero; at least
    2 / (resamples + 1).

    Example:
        >>> right, wrong = torch.ones(50), torch.zeros(50)
        >>> paired_bootstrap(right, wrong).difference
        1.0
    """
    x, y = _values(a, "a"), _values(b, "b")
    if len(x) != len(y):
        raise ValueError(f"a and b must score the same images, got {len(x)} and {len(y)} scores")
    difference = x - y
    means = _resampled_means(difference, resamples, seed)
    tail = min((means <= 0).sum(), (means >= 0).sum())
    p = min(1.0, 2 * (1 + tail) / (resamples + 1))
    return PairedDifference(float(difference.mean()), *bounds(means, level), float(p))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number by Holm's rule."""
    corrected, least = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = least
    return corrected


def _values(scores: Tensor, name: str) -> np.ndarray:
    values = torch.as_tensor(scores).detach().cpu().double().numpy()
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} must be one number per test image, got shape {values.shape}")
    return values


def bounds(values: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """The percentiles that hold the share `level` of resampled values (r,)."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _resampled_means(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Means (resamples,) of values (m,) drawn with replacement.

    Equal values are interchangeable, so only how often each distinct one is drawn matters: a multinomial over
    distinct values is the same bootstrap, at no cost that grows with the number of images.
    """
    distinct, counts = np.unique(values, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(values), counts / len(values), size=resamples)
    return np.asarray(drawn @ distinct / len(values))
