"""Which images each run got right, and differences between methods with the chance of seeds and of images in them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from experiments.common import tables
from experiments.common.cells import Cell, Row
from experiments.common.job import Job
from kvicreg.evaluation.intervals import holm
from kvicreg.storage import write_atomically

SCORES = ("probe", "knn")
Correct = Mapping[str, np.ndarray]
"""By name, for each scored image whether it was right: bool (m,)."""


def store_correct(path: Path, correct: Correct) -> None:
    """Write it, a bit for each image; nothing where there is nothing."""
    if correct:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        arrays: dict[str, Any] = {name: np.packbits(right) for name, right in correct.items()}
        arrays |= {f"{name} size": np.array(len(right)) for name, right in correct.items()}
        np.savez(content, **arrays)
        write_atomically(path, content.getvalue())


def read_correct(path: Path) -> dict[str, np.ndarray]:
    """What `store_correct` wrote; empty where it wrote nothing."""
    if not path.is_file():
        return {}
    with np.load(path) as stored:
        names = [name for name in stored.files if not name.endswith(" size")]
        return {name: np.unpackbits(stored[name])[: int(stored[f"{name} size"])].astype(bool) for name in names}


SINGLE = "†: one seed, so that the interval is of the test images alone; another training may differ by more."


class Difference(NamedTuple):
    """A mean difference in points, its 95 % interval, the two-sided p-value of none, and how seeds scatter in it."""

    points: float
    low: float
    high: float
    p_value: float
    scatter: float | None
    """Standard deviation over seeds, the chance of images in it; None for one seed."""


def hierarchical_difference(
    a: Sequence[np.ndarray], b: Sequence[np.ndarray], *, resamples: int = 20_000, seed: int = 0
) -> Difference:
    """Bootstrap of what `a` has above `b`: arrays (m,) for each seed, the same seeds and images for both.

    A resample draws seeds with replacement and then, the same for all of them, images: its width has the chance of
    training and that of the test set. What seeds differ by is drawn wider by sqrt(n / (n - 1)), for a resample of n has
    too little of it by that. With a single seed the width is of the test set alone.
    """
    margins = np.stack([x.astype(np.float32) - y for x, y in zip(a, b, strict=True)])
    generator, (seeds, images) = np.random.default_rng(seed), margins.shape
    times = generator.multinomial(seeds, [1 / seeds] * seeds, size=resamples)
    apart = margins.mean(1) - margins.mean()
    wider = (seeds / max(seeds - 1, 1)) ** 0.5 - 1
    parts = []
    for weights, count in zip(*np.unique(times, axis=0, return_counts=True), strict=True):
        values, having = np.unique(weights @ margins / seeds, return_counts=True)  # of images: few values in all
        shift = wider * (weights @ apart) / seeds
        parts.append(generator.multinomial(images, having / images, size=count) @ values / images + shift)
    draws = np.concatenate(parts)
    low, high = np.quantile(draws, (0.025, 0.975))
    beyond = int(min((draws <= 0).sum(), (draws >= 0).sum())) + 1
    points, low, high = (100 * float(value) for value in (margins.mean(), low, high))
    scatter = 100 * float(margins.mean(1).std(ddof=1)) if seeds > 1 else None
    return Difference(points, low, high, min(1.0, 2 * beyond / (resamples + 1)), scatter)


def gather_correct(job: Job, stem: str, cells: Sequence[Cell]) -> dict[str, np.ndarray]:
    """All that finished cells of a table got right, by cell and score, of this and earlier sittings."""
    path = job.out / f"{stem}-correct.npz"
    earlier, stored = read_correct(path), {}
    for cell in cells:
        correct = read_correct((job.runs / cell.result).with_suffix(".npz"))
        for score in SCORES:
            key = key_of(cell, score)
            if score in correct or key in earlier:
                stored[key] = correct[score] if score in correct else earlier[key]
    store_correct(path, stored)
    return stored


def key_of(cell: Cell, score: str) -> str:
    """A cell as its table names it, which stays when settings are added, and a score."""
    labels = ", ".join(str(value) for value in cell.labels.values())
    return f"{_data(cell)}, {labels}, seed {cell.settings.engine.seed}: {score}"


def _data(cell: Cell) -> str:
    """The name of the data that a cell is measured on."""
    return Path(cell.target).name if cell.target else cell.settings.data.short_name


def differences(
    cells: Sequence[Cell],
    correct: Correct,
    rival: str,
    at: Sequence[str],
    *,
    named: Callable[[Cell], str] = lambda cell: cell.labels["name"],
) -> list[Row]:
    """What each name has above the rival where these columns agree, over the seeds and images of both.

    p-values are corrected for all comparisons by the same score. One seed has none.
    """
    of: dict[tuple[str, ...], dict[int, Cell]] = {}
    for cell in cells:
        place = {"data": _data(cell), **cell.labels}
        key = (named(cell), *(place[column] for column in at))
        of.setdefault(key, {})[cell.settings.engine.seed] = cell
    rows: list[Row] = []
    for score in SCORES:
        here: list[Row] = []
        for (name, *values), seeds in of.items():
            beside = of.get((rival, *values), {})
            ours, theirs = (
                {seed: correct[key_of(cell, score)] for seed, cell in some.items() if key_of(cell, score) in correct}
                for some in (seeds, beside)
            )
            both = sorted(ours.keys() & theirs.keys())
            if name != rival and both:
                pair = ([right[seed] for seed in both] for right in (ours, theirs))
                labels = {"name": name, **dict(zip(at, values, strict=True)), "score": score, "seeds": len(both)}
                here.append(labels | hierarchical_difference(*pair)._asdict())
        corrected = iter(holm([row["p_value"] for row in here if row["seeds"] > 1]))
        rows += [row | {"p_corrected": next(corrected) if row["seeds"] > 1 else None} for row in here]
    return rounded(rows)


def rounded(rows: Sequence[Row]) -> list[Row]:
    """The rows with a ten-thousandth of a point to their numbers."""
    return [{k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()} for row in rows]


def margin_changes(cells: Sequence[Cell], correct: Correct, rival: str, column: str) -> list[Row]:
    """By how much each name's margin over the rival changes from the first value of a column to each later one.

    Over the seeds that both have at both values, and the same images.
    """
    of: dict[tuple[str, Any], dict[int, Cell]] = {}
    for cell in cells:
        of.setdefault((cell.labels["name"], cell.labels[column]), {})[cell.settings.engine.seed] = cell
    names, (first, *later) = dict.fromkeys(name for name, _ in of), sorted({value for _, value in of})
    rows: list[Row] = []
    for score, name, value in product(SCORES, (name for name in names if name != rival), later):
        four = [of.get(key, {}) for key in ((name, value), (rival, first), (name, first), (rival, value))]
        both = [s for s in four[0] if all(s in some and key_of(some[s], score) in correct for some in four)]
        right = [[correct[key_of(some[seed], score)].astype(np.int8) for some in four] for seed in both]
        if right:
            change = hierarchical_difference([a + b for a, b, _, _ in right], [c + d for _, _, c, d in right])
            labels = {"name": name, "from": first, "to": value, "score": score, "seeds": len(right)}
            rows.append(labels | change._asdict())
    return rounded(rows)


def margin_text(row: Row) -> str:
    """A difference with its interval; † where there is one seed."""
    return f"{row['points']:+.1f} ({row['low']:+.1f} to {row['high']:+.1f}){' †' if row['seeds'] == 1 else ''}"


def differences_table(rows: Sequence[Row], at: Sequence[str]) -> str:
    """A line for each name and score, a column for each place; a star where zero is out, † where there is one seed.

    Where some have more seeds than two, a difference of two says so.
    """
    places, of = tables.groups(rows, *at), tables.groups(rows, "name", "score")
    most = max(row["seeds"] for row in rows)

    def text(row: Row | None) -> str:
        if row is None:
            return ""
        fewer = f", {row['seeds']} seeds" if 1 < row["seeds"] < most else ""
        star = " *" if row["seeds"] > 1 and row["p_corrected"] < 0.05 else ""
        return f"{margin_text(row)}{fewer}{star}"

    lines = []
    for (name, score), same in of.items():
        here = {place: group[0] for place, group in tables.groups(same, *at).items()}
        lines.append([name, tables.SCORES[score], *(text(here.get(place)) for place in places)])
    heading = [", ".join(map(str, place)) if isinstance(place, tuple) else f"{at[0]}: {place}" for place in places]
    return f"{tables.markdown(['', 'score', *heading], lines)}\n\n{_note(rows)}"


def _note(rows: Sequence[Row]) -> str:
    """What the intervals hold, and what the marks say."""
    parts = ["95 % intervals by bootstrap."]
    if scatter := sorted(row["scatter"] for row in rows if row["seeds"] > 1):
        parts += [
            "Of seeds and test images: simulated with three seeds and 10,000 images, they hold the truth 97, 93 and 86 "
            "times in 100 where seeds scatter by 0.4, 0.8 and 1.5 points. Here margins scatter over seeds by "
            f"{median(scatter):.1f} points in the middle and {scatter[-1]:.1f} at most, the chance of images in it. "
            "*: other than zero at 5 % after Holm's correction for all comparisons by the same score. Of level methods "
            "0, 4 and 30 in 1,000 would have a p-value below 0.0025, as such a correction asks."
        ]
    if any(row["seeds"] == 1 for row in rows):
        parts += [SINGLE]
    return " ".join(parts)
