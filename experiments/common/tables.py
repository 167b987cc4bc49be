"""Rows of cells as tables: Markdown to read, CSV to compute with, JSON with the settings behind every number."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
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
    """
    out.mkdir(parents=True, exist_ok=True)
    shared, apart = shared_settings(rows)
    flat = [{key: value for key, value in row.items() if key not in ("config", "fingerprint")} for row in rows]
    numbers = io.StringIO()
    writer = csv.DictWriter(numbers, list(dict.fromkeys(key for row in flat for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    versions = [{"fingerprint": row["fingerprint"]} if "fingerprint" in row else {} for row in rows]
    whole = [{**row, "config": config, **code} for row, config, code in zip(flat, apart, versions, strict=True)]
    content = json.dumps({**about, "shared": shared, "rows": whole}, indent=1, allow_nan=False)
    for kind, written in {"md": text, "csv": numbers.getvalue(), "json": content + "\n"}.items():
        write_atomically(out / f"{stem}.{kind}", written.encode())


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
    same: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        same.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return same


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


def name_of(row: Row) -> str:
    """A method with its kernel, as tables call it; a row's own `name` comes first."""
    return str(row.get("name") or (f"{row['method']} ({row['kernel']})" if row.get("kernel") else row["method"]))


def summary(rows: Sequence[Row], *, digits: int = 1) -> str:
    """A line for each name: its scores, seeds and seconds of training, the best first."""
    named = groups([{**row, "name": name_of(row)} for row in rows], "name")
    names = sorted(named, key=lambda name: -mean(row.get("probe", 0) for row in named[name]))
    lines = []
    for name in names:
        seconds = mean(row.get("seconds", 0) for row in named[name])
        scores = [percent(named[name], score, digits) for score in SCORES]
        lines.append([name[0], *scores, len(named[name]), f"{seconds:.0f}"])
    return markdown(["method", *SCORES.values(), "seeds", "seconds of training"], lines)


def grid(rows: Sequence[Row], down: str, across: str, cell: Callable[[list[Row]], str] = percent) -> str:
    """A line for each value of one column, a cell for each value of another."""
    of = groups(rows, down, across)
    columns = list(dict.fromkeys(row.get(across) for row in rows))
    lines = (
        [line, *(cell(of[line, column]) if (line, column) in of else "" for column in columns)]
        for line in dict.fromkeys(row.get(down) for row in rows)
    )
    return markdown([down, *columns], lines)


def note(rows: Sequence[Row]) -> str:
    """What the numbers of a table are, in words."""
    first = rows[0]
    where = "held-out training" if first["on"] == "validation" else "test"
    return (
        f"Accuracy in percent on {first['scored_on']:,} {where} images: mean over seeds ± half the 95 % interval over "
        f"images (least to most of the seeds). Probes are logistic regressions on {first['fitted_on']:,} labelled "
        "training images, their C chosen on a fifth of those."
    )


def on_page(path: Path, *, named: bool = False) -> str:
    """The table and pictures of a result file, as part of a page in docs/."""
    about = json.loads(path.read_text())
    text = path.with_suffix(".md").read_text().replace("\n## ", "\n#### ").replace("\n### ", "\n#### ")
    pictures = sorted(path.parent.glob(f"{path.stem}*.png"))
    shown = [f"![{picture.stem}](results/{picture.name})\n" for picture in pictures]
    files = ", ".join(f"[{kind}](results/{path.stem}.{kind})" for kind in ("json", "csv"))
    heading = [f"### {path.stem}\n"] if named else []
    return "\n".join([*heading, *shown, text, f"Budget: {about['budget']}. Files: {files}.{remark(path)}\n"])
