"""results.json: what evaluation measured, with units, seeds, versions and the exact command."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kvicreg.storage import without_home, write_atomically

__all__ = ["FORMAT", "MEASURES", "Measure", "controls_of", "read_results", "short_names", "write_results"]

FORMAT = 1


class Measure(NamedTuple):
    """What a measure is called in tables, and in which unit its value is."""

    heading: str
    unit: str


MEASURES = {
    "linear_probe": Measure("linear probe", "fraction of test images"),
    "sgd_probe": Measure("SGD probe", "fraction of test images"),
    "knn": Measure("k-NN", "fraction of test images"),
    "labels_1_percent": Measure("1 % of labels", "fraction of test images, mean of 3 draws of labels"),
    "labels_10_percent": Measure("10 % of labels", "fraction of test images, mean of 3 draws of labels"),
    "fine_tuning": Measure("fine-tuned", "fraction of test images"),
    "nmi": Measure("k-means NMI", "normalised mutual information with the classes, 0 to 1"),
    "ari": Measure("k-means ARI", "adjusted Rand index with the classes, 1 at best, 0 by chance"),
}
"""The measures by their key in the results; the order is that of every table."""


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Atomically, as JSON without NaN or Infinity (null instead), so that anything can read it; home folders as ~."""
    text = json.dumps(without_home(_plain(results)), indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, text.encode() + b"\n")


def read_results(path: Path) -> dict[str, Any]:
    """What `write_results` wrote."""
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} has no {path.name}: evaluate it first with kvicreg evaluate")
    try:
        results = dict(json.loads(path.read_text()))
        version = results["format"]
        if version == FORMAT:
            results["subjects"], results["data"]["name"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged or not written by kvicreg; evaluate the run again") from error
    if version != FORMAT:
        raise ValueError(f"{path} has format {version}, this version reads {FORMAT}; evaluate the run again")
    return results


def controls_of(subjects: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The controls among the subjects of runs, by run: once where all have the same, else with the name of the run.

    Example:
        >>> controls_of({"a": {"encoder": {"knn": 2}, "pixels": {"knn": 1}}, "b": {"pixels": {"knn": 3}}})
        [('pixels of a', {'knn': 1}), ('pixels of b', {'knn': 3})]
    """
    names = dict.fromkeys(name for measured in subjects.values() for name in measured if name != "encoder")
    rows = []
    for name in names:
        different: list[tuple[str, dict[str, Any]]] = []
        for run, measured in subjects.items():
            if name in measured and all(measured[name] != measures for _, measures in different):
                different.append((run, measured[name]))
        is_shared = len(different) == 1 and all(name in measured for measured in subjects.values())
        rows += [(name if is_shared else f"{name} of {run}", measures) for run, measures in different]
    return rows


def short_names(runs: Sequence[str | Path]) -> list[str]:
    """What tables call runs: the names of their folders, with the parent's where two are the same."""
    folders = [Path(run).resolve() for run in runs]
    names = [folder.name for folder in folders]
    return [
        name if names.count(name) == 1 else f"{folder.parent.name}/{name}"
        for folder, name in zip(folders, names, strict=True)
    ]


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):  # intervals and differences
        return _plain(value._asdict())
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value
