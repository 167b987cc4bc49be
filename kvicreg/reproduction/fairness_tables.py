"""From the runs of `kvicreg reproduce fairness` to the table of docs/fairness.md."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

__all__ = ["interval", "markdown", "read"]

BASE = "without"
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""97.5 % quantile of Student's t by the number of values."""


def read(folder: Path) -> dict[str, Any]:
    """The results of all runs."""
    path = folder / "fairness.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: kvicreg reproduce fairness writes it")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half of its 95 % interval, by Student's t; nan for a single value."""
    if len(values) < 2:
        return mean(values), math.nan
    return mean(values), STUDENT.get(len(values), 2.0) * stdev(values) / math.sqrt(len(values))


def markdown(results: dict[str, Any]) -> str:
    """A table for each kind of minority: accuracy and effective rank of both groups, and the change against without."""
    rows = results["rows"]
    parts = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = [row for row in rows if row["kind"] == kind]
        variants = list(dict.fromkeys(row["variant"] for row in mine))
        lines = [
            "| | minority accuracy | change | minority rank | change | majority accuracy | change | majority rank |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for variant in variants:
            cells = []
            for group in ("minority", "majority"):
                cells += [_cell(mine, variant, group, "accuracy", 100), _change(mine, variant, group, "accuracy", 100)]
                cells.append(_cell(mine, variant, group, "effective_rank", 1))
                if group == "minority":
                    cells.append(_change(mine, variant, group, "effective_rank", 1))
            lines.append(f"| {variant} | {' | '.join(cells)} |")
        seeds = len({row["seed"] for row in mine})
        parts.append(f"**Minority by {kind}**, {seeds} seeds:\n\n" + "\n".join(lines))
    settings = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in results["settings"].items())
    note = (
        "Mean over the seeds and half of its 95 % interval (Student's t); changes are paired by seed. Accuracy of a "
        f"linear probe in percent of the group's test images. Shared: {settings}."
    )
    return "\n\n".join([*parts, note])


def _values(rows: Sequence[dict[str, Any]], variant: str, group: str, key: str, scale: float) -> dict[int, float]:
    return {row["seed"]: scale * row["groups"][group][key] for row in rows if row["variant"] == variant}


def _cell(rows: Sequence[dict[str, Any]], variant: str, group: str, key: str, scale: float) -> str:
    return _told(*interval(list(_values(rows, variant, group, key, scale).values())))


def _change(rows: Sequence[dict[str, Any]], variant: str, group: str, key: str, scale: float) -> str:
    if variant == BASE:
        return ""
    base, own = (_values(rows, v, group, key, scale) for v in (BASE, variant))
    return _told(*interval([own[seed] - base[seed] for seed in own if seed in base]), sign="+")


def _told(value: float, half: float, sign: str = "") -> str:
    return f"{value:{sign}.2f}" + ("" if half != half else f" ± {half:.2f}")
