"""What a run has left on disk, read for the report; what is not there is None, what is damaged is told."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.storage import read_arrays, read_yaml, without_home

# the arrays of a map, and their dimensions
MAP = {"points": 2, "labels": 1, "thumbnails": 4, "neighbours": 2, "pixel_neighbours": 2}


@dataclass(frozen=True)
class RunRecord:
    """One run: settings, a column per metric, spectra per epoch, evaluation results, and the map of its images."""

    path: Path
    name: str
    config: dict[str, Any]
    metrics: dict[str, list[float | None]]
    warnings: list[str]
    epochs: np.ndarray | None  # (E,) of the spectra
    eigenvalues: np.ndarray | None  # (E, k), descending
    results: dict[str, Any] | None
    transfers: list[dict[str, Any]] = field(default_factory=list)
    map: dict[str, np.ndarray] | None = None
    selection: dict[str, Any] | None = None  # the study that this run has won


def read_run(path: str | Path, name: str | None = None) -> RunRecord:
    """Read a run folder; it must at least have a config.yaml."""
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no run folder {path}")
    if not (path / "config.yaml").is_file():
        raise ValueError(f"{path} is not a run folder: it has no config.yaml (kvicreg train writes one)")
    metrics, warnings = _metrics(path / "metrics.csv")
    spectra = _arrays(path / "spectrum.npz", {"epochs": 1, "eigenvalues": 2})
    # what is read here is shown: a page is meant to be passed on, and says nothing of home folders
    return RunRecord(
        path=path,
        name=name or path.resolve().name,
        config=without_home(_config(path / "config.yaml")),
        metrics=metrics,
        warnings=without_home(warnings),
        epochs=None if spectra is None else spectra["epochs"],
        eigenvalues=None if spectra is None else spectra["eigenvalues"],
        results=_json(path / "results.json") if (path / "results.json").exists() else None,
        transfers=[_json(file) for file in sorted(path.glob("results-on-*.json"))],
        map=_arrays(path / "evaluation" / "map.npz", MAP),
        selection=_selection(path / "selection.json"),
    )


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Files that can be read may still not hold what they should, deep inside: that is told too."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{what}: its results are damaged or of another version ({reason}); evaluate again") from error


def _config(path: Path) -> dict[str, Any]:
    config = read_yaml(path)
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds no settings: it was not written by kvicreg")
    return config


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
        content["format"], content["subjects"], content["data"]["name"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged or not written by kvicreg; evaluate the run again") from error
    return dict(without_home(content))


def _selection(path: Path) -> dict[str, Any] | None:
    """The ranking of a study, or None where the run is not of one."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text())
        content["criterion"], [(r["candidate"], r["steps"], r["criteria"], r["error"]) for r in content["ranking"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged or not written by kvicreg: delete it, or select again") from error
    return dict(content)


def _metrics(path: Path) -> tuple[dict[str, list[float | None]], list[str]]:
    """Columns of numbers (None where empty or not finite), and the warnings with their epochs."""
    if not path.is_file():
        return {}, []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns: dict[str, list[float | None]] = {}
    for key in rows[0] if rows else []:
        if key and key != "warning":
            columns[key] = [_number(row.get(key)) for row in rows]
    if rows and "epoch" not in columns:
        raise ValueError(f"{path} has no column 'epoch': it was not written by kvicreg")
    warnings = [f"epoch {row['epoch']}: {row['warning']}" for row in rows if row.get("warning")]
    return columns, warnings


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _arrays(path: Path, needed: dict[str, int]) -> dict[str, np.ndarray] | None:
    if not path.is_file():
        return None
    found = read_arrays(path)
    missing = [key for key in needed if key not in found]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: it was not written by kvicreg")
    count = len(np.atleast_1d(found[next(iter(needed))]))
    for key, dimensions in needed.items():
        value = found[key]
        if value.dtype.kind not in "biuf" or value.ndim != dimensions or len(value) != count:
            shape = f"{value.dtype} {value.shape}"
            raise ValueError(f"{path} is damaged: {key} should be {dimensions}-dimensional numbers, got {shape}")
    return found if all(len(found[key]) for key in needed) else None
