"""What a run has left on disk, read for the report; what is not there is None, what is damaged is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.runs import RunFolder
from kvicreg.runs.results import read_results
from kvicreg.storage import without_home

__all__ = ["RunRecord", "explaining_damage", "read_run"]

# the arrays of a map, and their dimensions
MAP = {"points": 2, "labels": 1, "thumbnails": 4, "neighbours": 2, "pixel_neighbours": 2}


@dataclass(frozen=True)
class RunRecord:
    """One run: settings, a column per metric, spectra per epoch, evaluation results, and the map of its images."""

    folder: RunFolder
    name: str
    method: str  # in words
    settings: dict[str, Any]  # by flat name
    metrics: dict[str, list[float | None]]
    warnings: list[str]
    epochs: np.ndarray | None  # (E,) of the spectra
    eigenvalues: np.ndarray | None  # (E, k), descending
    results: dict[str, Any] | None
    transfers: list[dict[str, Any]] = field(default_factory=list)
    map: dict[str, np.ndarray] | None = None
    selection: dict[str, Any] | None = None  # the ranking that this run has won


def read_run(path: str | Path, name: str | None = None) -> RunRecord:
    """Read a run folder, of which only the settings must be there."""
    run = RunFolder.open(path)
    metrics, spectra, results = run.metrics(), run.spectra(), run.results_path()
    # what is read here is shown: a page is meant to be passed on, and names no home folders
    return RunRecord(
        folder=run,
        name=name or run.name,
        method=run.settings.method.describe(),
        settings=without_home(run.settings.flat()),
        metrics=metrics.columns,
        warnings=without_home(metrics.warnings),
        epochs=None if spectra is None else spectra["epochs"],
        eigenvalues=None if spectra is None else spectra["eigenvalues"],
        results=without_home(read_results(results)) if results.exists() else None,
        transfers=[without_home(read_results(file)) for file in run.transfer_paths()],
        map=run.arrays("map", None, **MAP),
        selection=run.selection(),
    )


@contextmanager
def explaining_damage(names: str) -> Iterator[None]:
    """Say so when files that can be read do not hold, deep inside, what they should."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"{names}: its results are damaged or of another version ({reason}); evaluate again"
        ) from error
