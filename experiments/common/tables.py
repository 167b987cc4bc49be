"""Rows of cells as tables: Markdown to read, CSV to compute with, JSON with the settings behind every number."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.common.versions import remark
from kvicreg.storage import write_atomically

Row = dict[str, Any]
SCORES = {"probe": "linear probe", "probe_few": "probe, 1,000 labels", "knn": "20-NN"}


def write(out: Path, stem: str, rows: Sequence[Row], text: str, **about: Any) -> None:
    """Write ``stem.md``, ``stem.csv`` and ``stem.json`` into `out`.

    Every row's config is in the JSON: what all share once, under "shared", and beside the row what sets it apart.
    Controls know only the settings they depend on, and have no part in saying what is shared.
    """
    out.mkdir(parents=True, exist_ok=True)
    configs = [row["config"] for row in rows]
    whole = [config for config in configs if "method" in config] or configs or [{}]
    shared = {key: value for key, value in whole[0].items() if all(c.get(key, c) == value for c in whole)}
    flat = [{key: value for key, value in row.items() if key not in ("config", "fingerprint")} for row in rows]
    numbers = io.StringIO()
    writer = csv.DictWriter(numbers, list(dict.fromkeys(key for row in flat for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    apart = [{k: v for k, v in c.items() if k not in shared or shared[k] != v} for c in configs]
    versions = [{k: v for k, v in row.items() if k == "fingerprint"} for row in rows]
    rows = [{**row, "config": config, **code} for row, config, code in zip(flat, apart, versions, strict=True)]
    content = json.dumps({**about, "shared": shared, "rows": rows}, indent=1, allow_nan=False)
    for kind, written in {"md": text, "csv": numbers.getvalue(), "json": content + "\n"}.items():
        write_atomically(out / f"{stem}.{kind}", written.encode())


def groups(rows: Iterable[Row], *keys: str) -> dict[Any, list[Row]]:
    """Rows that agree on a column, by its value, or on several, by the tuple of them; in order of appearance."""
    same: dict[Any, list[Row]] = {}
    for row in rows:
        values = tuple(row.get(key) for key in keys)
        same.setdefault(values if len(keys) > 1 else values[0], []).append(row)
    return same


def average(rows: Iterable[Row], column: str = "probe") -> float:
    """The mean of a column, 0 for rows that failed."""
    return mean(row.get(column, 0) for row in rows)


def markdown(heading: Sequence[Any], lines: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown."""
    top, *rest = (f"| {' | '.join(map(str, line))} |" for line in [heading, *lines])
    return "\n".join([top.replace("|  |", "| |"), "|---" * len(heading) + "|", *rest])


def percent(rows: Sequence[Row], score: str = "probe", digits: int = 1) -> str:
    """Mean over the seeds, plus or minus half the 95 % interval over images, and the least and most of the seeds."""
    rows = [row for row in rows if score in row]
    if not rows:
        return "failed"
    values = [100 * row[score] for row in rows]
    half = 50 * mean(row[f"{score}_high"] - row[f"{score}_low"] for row in rows)
    seeds = f" ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f} ± {half:.{digits}f}{seeds}"


def named(rows: Iterable[Row]) -> list[Row]:
    """The rows with the `name` that tables call them by: their own, or the method with its kernel."""
    return [{**row, "name": name_of(row)} for row in rows]


def name_of(row: Row) -> str:
    """A method with its kernel, as tables call it; a row's own `name` comes first."""
    return str(row.get("name") or (f"{row['method']} ({row['kernel']})" if row.get("kernel") else row["method"]))


def margins(rows: Iterable[Row], rival: str, score: str = "probe") -> dict[str, list[float]]:
    """What every name has above the rival with the same seed, in percentage points."""
    of = {(name_of(row), row["seed"]): row[score] for row in rows if score in row}
    pairs = [(name, 100 * (value - of[rival, seed])) for (name, seed), value in of.items() if (rival, seed) in of]
    return {name: [points for other, points in pairs if other == name] for name, _ in pairs}


def margins_table(rows: Sequence[Row], rival: str, names: Iterable[str], by: str = "data") -> str:
    """What each name has above the rival with the same seed: the mean, and the least and most of the seeds."""
    columns = {
        f"{place}, {SCORES[score]}": margins(same, rival, score)
        for place, same in groups(rows, by).items()
        for score in ("probe", "knn")
        if any(name_of(row) == rival and "probe" in row for row in same)
    }

    def text(points: Sequence[float]) -> str:
        return f"{mean(points):+.1f} ({min(points):+.1f} to {max(points):+.1f})" if points else ""

    lines = ([name, *(text(above.get(name, ())) for above in columns.values())] for name in names)
    return markdown(["", *columns], lines) if columns else ""


def summary(rows: Sequence[Row], *, digits: int = 1) -> str:
    """A line for each name: its scores, seeds and seconds of training, the best first."""
    of = sorted(groups(named(rows), "name").items(), key=lambda item: -average(item[1]))
    lines = (
        [name, *(percent(same, s, digits) for s in SCORES), len(same), f"{average(same, 'seconds'):.0f}"]
        for name, same in of
    )
    return markdown(["method", *SCORES.values(), "seeds", "seconds of training"], lines)


def seconds_line(rows: Iterable[Row]) -> list[str]:
    """A sentence with the mean seconds of a run of each method on each data set, for tables that have no column."""
    timed = named({**row, "name": None} for row in rows if row.get("seconds"))
    of, several = groups(timed, "name", "data"), len(groups(timed, "data")) > 1
    seconds = (
        f"{name} {f'on {data} ' if several else ''}{average(same, 'seconds'):.0f}" for (name, data), same in of.items()
    )
    return [f"\nSeconds of training a run, by the clock of a shared machine: {', '.join(seconds)}."] if of else []


def grid(rows: Sequence[Row], down: str, across: str, score: str = "probe") -> str:
    """A line for each value of one column, a score for each value of another."""
    of, columns = groups(rows, down, across), groups(rows, across)
    lines = (
        [line, *(percent(of[line, c], score) if (line, c) in of else "" for c in columns)]
        for line in groups(rows, down)
    )
    return markdown([down, *columns], lines)


def note(rows: Sequence[Row], *, intervals: bool = True) -> str:
    """What the numbers of a table are, in words."""
    first = rows[0]
    where = "held-out training" if first["on"] == "validation" else "test"
    scored, fitted = (
        " or ".join(f"{count:,}" for count in sorted({row[key] for row in rows if key in row}, reverse=True))
        for key in ("scored_on", "fitted_on")
    )
    of_seeds = len(groups(rows, "seed")) > 1
    means = "mean over seeds" if of_seeds else "one seed"
    spread = " ± half the 95 % interval over images" if intervals else ""
    spread += " (least to most of the seeds)" if spread and of_seeds else ""
    return (
        f"Accuracy in percent on {scored} {where} images: {means}{spread}. Probes are logistic regressions on "
        f"{fitted} labelled training images, their C chosen on a fifth of those."
    )


def part_of_page(path: Path, command: str) -> str:
    """What a page shows of a result file, or how to make it."""
    return on_page(path) if path.is_file() else f"Not run yet: `python -m experiments {command}`.\n"


def on_page(path: Path, *, named: bool = False) -> str:
    """The table and pictures of a result file, as part of a page in docs/."""
    text = path.with_suffix(".md").read_text().replace("\n## ", "\n#### ").replace("\n### ", "\n#### ")
    pictures = sorted(path.parent.glob(f"{path.stem}*.png"))
    shown = [f"![{picture.stem}](results/{picture.name})\n" for picture in pictures]
    files = ", ".join(f"[{kind}](results/{path.stem}.{kind})" for kind in ("json", "csv"))
    heading, budget = [f"### {path.stem}\n"] * named, json.loads(path.read_text())["budget"]
    return "\n".join([*heading, *shown, text, f"Budget: {budget}. Files: {files}.{remark(path)}\n"])
