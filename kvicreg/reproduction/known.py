"""What earlier tables know: their rows stand for runs whose folders are not here.

So a table that is kept, such as those of docs/results, can be continued on another machine from its file alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvicreg.reproduction.cells import CONTROLS, Cell, Split, finished, is_row_of
from kvicreg.storage import write_atomically

__all__ = ["known_rows", "restore"]

SCORES = tuple(f"{name}{end}" for name in ("probe", "probe_few", "knn") for end in ("", "_low", "_high"))
MEASURED = (
    "method", "kernel", "data", "seed", "on", "fitted_on", "scored_on", *SCORES, "effective_rank",
    "effective_rank_share", "seconds", "threads", "precision",
)  # fmt: skip
"""What a row holds beside its labels, which are each table's own, and its config."""


def known_rows(results: Path, on: Split) -> list[dict[str, Any]]:
    """The rows of all tables in a folder that were scored on these images, with their whole config."""
    known: list[dict[str, Any]] = []
    for path in sorted(results.glob("*.json")):
        table = json.loads(path.read_text())
        if isinstance(table, dict) and "shared" in table:
            for row in table["rows"]:
                if row["on"] == on and "probe" in row:
                    measured = {name: row[name] for name in MEASURED if name in row}
                    known.append({**measured, "config": {**table["shared"], **row["config"]}})
    return known


def restore(cells: Sequence[Cell], runs: Path, known: Sequence[dict[str, Any]], *, on: Split) -> None:
    """Keep the known rows of these cells in the folder of runs, where those that have not been run are looked for."""
    trained = [row for row in known if row["method"] not in CONTROLS]
    for cell in cells:
        if finished(cell, runs, on) is None and (row := next((r for r in trained if is_row_of(cell, r)), None)):
            path = cell.result(runs / "restored", on)
            path.parent.mkdir(parents=True, exist_ok=True)
            told = {"precision": row["config"]["precision"], **row}
            write_atomically(path, json.dumps(told, indent=1).encode() + b"\n")
