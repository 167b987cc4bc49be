"""Where a kernel's scale comes from: a number, the mean distance, the median, or the median smoothed over steps.

The median heuristic sets ``gamma = 1 / median`` of the distance in the kernel's formula, over the pairs i < j within
each view, the views pooled; they may differ in size. No gradient flows through it: the value of a loss does not depend
on the scale of the embeddings, while its gradient lets them grow, so that the value may rise as it is descended. The
rule "mean" takes the mean of the distances, and its gradient is part of the loss's: a step that only scales the
embeddings has none. Either makes the loss blind to their scale, and gradients grow as 1 / scale, so both are floored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

__all__ = ["MEDIAN_ROWS", "Gamma", "Mean", "Median", "check_gamma", "evenly_spaced", "median_of_pairs"]

MEDIAN_ROWS = 256
"""A view with more rows than this is represented in the median by this many of them, evenly spaced."""


class Median(nn.Module):
    """``gamma = 1 / (multiple * median)``, from each batch or smoothed over steps.

    Args:
        multiple: the bandwidth in units of the median distance.
        momentum: 0 takes every batch's own median; m in (0, 1) keeps a running median,
            ``m * running + (1 - m) * median``, saved in the `state_dict`. `advance` moves it, which a loss calls once
            per training step; before the first step a batch's own median is used.
        floor: the smallest median distance that is believed; its square where the kernel's distance is squared.

    Example:
        >>> RBF(gamma=Median(multiple=2.0)).resolve(torch.tensor([[0.0], [2.0]]))  # the median of |x_i - x_j|^2 is 4
        RBF(gamma=0.125)
    """

    running: Tensor

    def __init__(self, multiple: float = 1.0, momentum: float = 0.0, floor: float = 1e-6) -> None:
        super().__init__()
        if not (multiple > 0 and math.isfinite(multiple)):
            raise ValueError(f"multiple must be positive and finite, got {multiple}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}")
        if not (floor > 0 and math.isfinite(floor)):
            raise ValueError(f"floor must be positive and finite, got {floor}")
        self.multiple, self.momentum, self.floor = multiple, momentum, floor
        if momentum:
            self.register_buffer("running", torch.tensor(math.nan))

    has_gradient = False
    """Whether a gradient flows through the scale; without, it is constant within a step."""

    def times(self, factor: float) -> Median:
        """The same rule with a bandwidth so many times as large."""
        return Median(self.multiple * factor, self.momentum, self.floor)

    def extra_repr(self) -> str:
        return f"multiple={self.multiple:g}, momentum={self.momentum:g}"

    @torch.no_grad()
    def gamma(self, *distances: Tensor, power: int) -> Tensor:
        """The scale for views with these distances ``(..., n, n)`` of all pairs, raised to `power` (1 or 2)."""
        median = self._floored(distances, power)
        if self.momentum:
            running = self.running.to(median)
            median = torch.where(running.isnan(), median, running)
        return 1.0 / (self.multiple * median)

    @torch.no_grad()
    def advance(self, *distances: Tensor, power: int) -> None:
        """Let the running median, if there is one, follow views with these distances."""
        if self.momentum:
            median = self._floored(distances, power)
            running = torch.lerp(median, self.running.to(median), self.momentum)
            self.running.copy_(torch.where(running.isnan(), median, running))

    def _floored(self, distances: Sequence[Tensor], power: int) -> Tensor:
        return median_of_pairs(*distances).clamp_min(self.floor**power)


class Mean(Median):
    """``gamma = 1 / (multiple * mean distance)``, with its gradient.

    It is that of the mean over the pairs i < j within each view, the views pooled. Where a scale is taken from a few
    rows of the batch (approximations, groups, the other kernel methods), it is constant within a step.

    Args:
        multiple: the bandwidth in units of the mean distance.
        floor: the smallest mean distance that is believed; its square where the kernel's distance is squared.

    Example:
        >>> RBF(gamma=Mean()).resolve(torch.tensor([[0.0], [2.0]]))  # the mean of |x_i - x_j|^2 is 4
        RBF(gamma=0.25)
    """

    has_gradient = True

    def __init__(self, multiple: float = 1.0, floor: float = 1e-6) -> None:
        super().__init__(multiple, floor=floor)

    def times(self, factor: float) -> Mean:
        return Mean(self.multiple * factor, self.floor)

    def gamma(self, *distances: Tensor, power: int) -> Tensor:
        """The scale for views with these distances ``(..., n, n)`` of all pairs, raised to `power` (1 or 2)."""
        pairs = sum(d.numel() - d.numel() // d.shape[-1] for d in distances)
        if not pairs:
            raise ValueError("the mean distance needs at least two points in a view; give gamma a number")
        total = torch.stack([d.sum() for d in distances]).sum()  # that of a point to itself is zero
        return 1.0 / (self.multiple * (total / pairs).clamp_min(self.floor**power))

    def extra_repr(self) -> str:
        return f"multiple={self.multiple:g}"


Gamma = float | Tensor | Literal["median", "mean", "smoothed"] | Median
"""A positive number, "median", "mean", "smoothed" (momentum 0.99), or a `Median` or `Mean` with its own settings."""


def check_gamma(gamma: Gamma) -> float | Tensor | Median:
    """The rule or the number that `gamma` stands for."""
    if isinstance(gamma, str) and gamma == "median":
        return Median()
    if isinstance(gamma, str) and gamma == "mean":
        return Mean()
    if isinstance(gamma, str) and gamma == "smoothed":
        return Median(momentum=0.99)
    if isinstance(gamma, str):
        raise ValueError(f'gamma must be a positive number, "median", "mean", "smoothed" or a Median, got {gamma!r}')
    if isinstance(gamma, Median | Tensor):
        return gamma
    if not isinstance(gamma, int | float):
        raise TypeError(f'gamma must be a number, "median", "mean", "smoothed" or a Median, got {type(gamma).__name__}')
    if not (math.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma must be positive and finite, got {gamma}")
    return float(gamma)


def median_of_pairs(*distances: Tensor) -> Tensor:
    """Median over the pairs i < j of symmetric matrices ``(..., n, n)``, all of them pooled.

    With an even number of pairs it is the mean of the middle two, as in numpy.
    """
    parts = [_upper_triangle(matrix) for matrix in distances]
    values = torch.cat(parts) if len(parts) > 1 else parts[0]
    if not len(values):
        raise ValueError("the median heuristic needs at least two points in a view; give gamma a number")
    middle = (values.numel() + 1) // 2
    lower = values.kthvalue(middle).values
    if values.numel() % 2:
        return lower
    above = values > lower
    next_value = torch.where(above, values, math.inf).min()
    upper = torch.where(values.numel() - above.sum() > middle, lower, next_value)
    return (lower + upper) / 2


def _upper_triangle(distances: Tensor) -> Tensor:
    n = distances.shape[-1]
    if n > MEDIAN_ROWS:
        rows = evenly_spaced(n, MEDIAN_ROWS, distances.device)
        distances, n = distances[..., rows[:, None], rows], MEDIAN_ROWS
    i, j = torch.triu_indices(n, n, offset=1, device=distances.device)
    return distances.reshape(-1, n * n)[:, i * n + j].flatten()


def evenly_spaced(total: int, count: int, device: torch.device | None = None) -> Tensor:
    """`count` distinct row numbers spread over ``range(total)``; all of them when there are no more."""
    count = min(count, total)
    return torch.arange(count, device=device) * total // count
