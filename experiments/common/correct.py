"""Which images each run got right, and differences between methods with the chance of seeds and of images in them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kvicreg.storage import write_atomically

Correct = Mapping[str, np.ndarray]
"""By name, for each scored image whether it was right: bool (m,)."""


def store_correct(path: Path, correct: Correct) -> None:
    """Write it, a bit for each image; nothing where there is nothing."""
    if correct:
        path.parent.mkdir(parents=True, exist_ok=True)
        content, bits = io.BytesIO(), {name: np.packbits(right) for name, right in correct.items()}
        sizes = {f"{name} size": np.array(len(right)) for name, right in correct.items()}
        np.savez(content, allow_pickle=False, **bits, **sizes)
        write_atomically(path, content.getvalue())


def read_correct(path: Path) -> dict[str, np.ndarray]:
    """What `store_correct` wrote; empty where it wrote nothing."""
    if not path.is_file():
        return {}
    with np.load(path) as stored:
        names = [name for name in stored.files if not name.endswith(" size")]
        return {name: np.unpackbits(stored[name])[: int(stored[f"{name} size"])].astype(bool) for name in names}


class Difference(NamedTuple):
    """A mean difference in points, its 95 % interval, and the two-sided p-value of none."""

    points: float
    low: float
    high: float
    p_value: float


def hierarchical_difference(
    a: Sequence[np.ndarray], b: Sequence[np.ndarray], *, resamples: int = 2000, seed: int = 0
) -> Difference:
    """Bootstrap of what `a` has above `b`: arrays (m,) for each seed, the same seeds and images for both.

    A resample draws seeds with replacement and then, the same for all of them, images: its width has the chance of
    training and that of the test set. With a single seed it has that of the test set alone.
    """
    margins = np.stack([x.astype(np.float32) - y for x, y in zip(a, b, strict=True)])
    generator, (seeds, images) = np.random.default_rng(seed), margins.shape
    draws = np.empty(resamples)
    for number in range(resamples):
        of_seeds = np.bincount(generator.integers(seeds, size=seeds), minlength=seeds) @ margins / seeds
        draws[number] = of_seeds[generator.integers(images, size=images)].mean()
    low, high = np.quantile(draws, (0.025, 0.975))
    beyond = int(min((draws <= 0).sum(), (draws >= 0).sum())) + 1
    points, low, high = (100 * float(value) for value in (margins.mean(), low, high))
    return Difference(points, low, high, min(1.0, 2 * beyond / (resamples + 1)))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """p-values corrected for their number by Holm's rule."""
    corrected, least = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = least
    return corrected
