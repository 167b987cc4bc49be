"""What was measured every epoch of a training, as a table in a file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvicreg.storage import write_atomically

__all__ = ["Metrics", "read_metrics", "write_metrics"]


@dataclass(frozen=True)
class Metrics:
    """What metrics.csv holds: a column of numbers per measure (None where not measured), and the epochs' warnings."""

    columns: dict[str, list[float | None]]
    warnings: list[str]

    def measured(self, name: str) -> list[float]:
        """The values of a column that were measured, in order."""
        return [value for value in self.columns.get(name, []) if value is not None]


def read_metrics(path: Path) -> Metrics:
    """The metrics in a file; none where there is no file."""
    if not path.is_file():
        return Metrics({}, [])
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is damaged ({error}): delete it, or train the run again") from error
    names = [name for name in (rows[0] if rows else []) if name and name != "warning"]
    if rows and "epoch" not in names:
        raise ValueError(f"{path} has no column 'epoch': it was not written by kvicreg")
    columns = {name: [_number(row.get(name)) for row in rows] for name in names}
    return Metrics(columns, [f"epoch {row['epoch']}: {row['warning']}" for row in rows if row.get("warning")])


def write_metrics(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a row per epoch; the last row names the columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[-1]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: "" if v != v else f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    write_atomically(path, text.getvalue().encode())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
