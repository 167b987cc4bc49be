"""Successive halving: all candidates for a few steps, the better half for twice as many, and so on.

A rung is decided when all of its candidates are measured, so the outcome depends on neither the order in which they
finish nor on how many processes work on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Rung", "order", "plan", "sizes"]

LAST = 3
"""Halving ends with this many candidates or fewer."""


@dataclass(frozen=True)
class Rung:
    """A stage of a study: this many candidates, each trained up to this many steps."""

    steps: int
    candidates: int


def sizes(candidates: int) -> list[int]:
    """How many candidates each rung has: half of them go on, rounded up, until `LAST` or fewer are left."""
    counts = [candidates]
    while counts[-1] > LAST:
        counts.append((counts[-1] + 1) // 2)
    return counts


def plan(candidates: int, budget: int, full: int) -> list[Rung]:
    """Rungs whose steps double and that cost at most `budget` steps in all; none goes beyond a full run's steps.

    A candidate that goes on continues where it was, so a rung costs it only the steps it adds.
    """
    counts = sizes(candidates)
    units = counts[0] + sum(count * 2 ** (k - 1) for k, count in enumerate(counts) if k)
    first = min(budget // units, full // 2 ** (len(counts) - 1))
    if first < 1:
        raise ValueError(
            f"budget: {candidates} candidates in {len(counts)} rungs need at least {units} steps and runs of "
            f"{2 ** (len(counts) - 1)} steps, got {budget} and {full}; give more, or fewer candidates"
        )
    return [Rung(first * 2**k, count) for k, count in enumerate(counts)]


def order(scores: Mapping[str, float | None]) -> list[str]:
    """Names, the best score first; equals stay in the order given, and those without a score come last."""
    worst = float("-inf")
    keys = {name: worst if value is None or value != value else value for name, value in scores.items()}
    failed = {name for name, value in scores.items() if value is None}
    return sorted(scores, key=lambda name: (name in failed, -keys[name]))
