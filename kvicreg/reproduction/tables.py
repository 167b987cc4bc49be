"""Rows of cells as tables: Markdown to read, CSV to compute with, JSON with the settings behind every number."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from kvicreg.storage import write_atomically

__all__ = ["grid", "groups", "percent", "shared_settings", "summary", "write"]

Row = dict[str, Any]
SCORES = {"probe": "linear probe", "probe_few": "probe, 1,000 labels", "knn": "20-NN"}


def write(out: Path, stem: str, rows: Sequence[Row], markdown: str, **about: Any) -> list[Path]:
    """Write ``stem.md``, ``stem.csv`` and ``stem.json`` into `out`.

    Every row's config is in the JSON: what all share once, under "shared", and beside the row what sets it apart.
    """
    out.mkdir(parents=True, exist_ok=True)
    shared, own = shared_settings(rows)
    flat = [{key: value for key, value in row.items() if key != "config"} for row in rows]
    kept = [{**row, "config": config} for row, config in zip(flat, own, strict=True)]
    columns = list(dict.fromkeys(key for row in flat for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    content = json.dumps({**about, "shared": shared, "rows": kept}, indent=1, allow_nan=False)
    files = {"md": markdown, "csv": text.getvalue(), "json": content + "\n"}
    for kind, written in files.items():
        write_atomically(out / f"{stem}.{kind}", written.encode())
    return [out / f"{stem}.{kind}" for kind in files]


def shared_settings(rows: Sequence[Row]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings that all rows have alike, and those of each row beside them.

    Controls know only the settings they depend on, and have no part in saying what is shared.
    """
    configs = [row["config"] for row in rows]
    whole = [config for config in configs if "method" in config] or configs
    first = whole[0] if whole else {}
    shared = {key: value for key, value in first.items() if all(c.get(key, c) == value for c in whole)}
    return shared, [{k: v for k, v in c.items() if k not in shared or shared[k] != v} for c in configs]


def groups(rows: Sequence[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that agree on these columns, which is to say the seeds of one thing, in order of appearance."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return found


def percent(rows: Sequence[Row], score: str = "probe", digits: int = 1) -> str:
    """Mean over the seeds, plus or minus half the 95 % interval over images, and the least and most of the seeds."""
    rows = [row for row in rows if score in row]
    if not rows:
        return "failed"
    values = [100 * row[score] for row in rows]
    half = 50 * mean(row[f"{score}_high"] - row[f"{score}_low"] for row in rows)
    spread = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f} ± {half:.{digits}f}{spread}"


def name_of(row: Row) -> str:
    """A method with its kernel, as tables call it; a row's own `name` comes first."""
    return str(row.get("name") or (f"{row['method']} ({row['kernel']})" if row.get("kernel") else row["method"]))


def summary(rows: Sequence[Row], *, best_first: bool = True, digits: int = 1) -> str:
    """A line for each name: its scores, seeds and seconds of training."""
    named = groups([{**row, "name": name_of(row)} for row in rows], "name")
    names = list(named)
    if best_first:
        names.sort(key=lambda name: -mean(row.get("probe", 0) for row in named[name]))
    lines = [f"| method | {' | '.join(SCORES.values())} | seeds | seconds of training |", "|---" * 6 + "|"]
    for name in names:
        seconds = mean(row.get("seconds", 0) for row in named[name])
        scores = " | ".join(percent(named[name], score, digits) for score in SCORES)
        lines.append(f"| {name[0]} | {scores} | {len(named[name])} | {seconds:.0f} |")
    return "\n".join(lines)


def grid(rows: Sequence[Row], down: str, across: str, cell: Callable[[list[Row]], str] = percent) -> str:
    """A line for each value of one column, a cell for each value of another."""
    of = groups(rows, down, across)
    columns = list(dict.fromkeys(row.get(across) for row in rows))
    lines = [f"| {down} | {' | '.join(map(str, columns))} |", "|---" * (len(columns) + 1) + "|"]
    for line in dict.fromkeys(row.get(down) for row in rows):
        cells = [cell(of[line, column]) if (line, column) in of else "" for column in columns]
        lines.append(f"| {line} | {' | '.join(cells)} |")
    return "\n".join(lines)


def unfinished(done: int, of: int) -> list[str]:
    """A sentence while some runs are still to come, else none."""
    return [f"{done} of {of} runs are finished; the others are not in the tables yet.\n"] if done < of else []


def note(rows: Sequence[Row]) -> str:
    """What the numbers of a table are, in words."""
    first = rows[0]
    where = "held-out training" if first["on"] == "validation" else "test"
    return (
        f"Accuracy in percent on {first['scored_on']:,} {where} images: mean over seeds ± half the 95 % interval over "
        f"images (least to most of the seeds). Probes are logistic regressions on {first['fitted_on']:,} labelled "
        "training images, their C chosen on a fifth of those."
    )
