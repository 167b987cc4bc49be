"""results.json: what evaluation found, with units, seeds, versions and the exact command."""

from __future__ import annotations

import json
import math
import platform
import re
from dataclasses import asdict, is_dataclass
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.evaluation.intervals import Interval, PairedDifference
from kvicreg.storage import without_home, write_atomically

FORMAT = 1

# key in results.json -> (heading, unit); the order is that of every table
MEASURES = {
    "linear_probe": ("linear probe", "fraction of test images"),
    "sgd_probe": ("SGD probe", "fraction of test images"),
    "knn": ("k-NN", "fraction of test images"),
    "labels_1_percent": ("1 % of labels", "fraction of test images, mean of 3 draws of labels"),
    "labels_10_percent": ("10 % of labels", "fraction of test images, mean of 3 draws of labels"),
    "fine_tuning": ("fine-tuned", "fraction of test images"),
    "nmi": ("k-means NMI", "normalised mutual information with the classes, 0 to 1"),
    "ari": ("k-means ARI", "adjusted Rand index with the classes, 1 at best, 0 by chance"),
}


def results_path(run: Path, data: str | None = None) -> Path:
    """results.json, or for other data than the run's own, results-on-DATA.json."""
    if data is None:
        return run / "results.json"
    return run / f"results-on-{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(data).name) or 'data'}.json"


def arrays_path(run: Path, kind: str, data: str | None = None) -> Path:
    """evaluation/KIND.npz beside the results of the same data."""
    return run / "evaluation" / f"{kind}{results_path(run, data).stem.removeprefix('results')}.npz"


def save_arrays(path: Path, **arrays: Any) -> None:
    """Write a compressed npz file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = BytesIO()
    np.savez_compressed(file, **arrays)
    write_atomically(path, file.getvalue())


def versions() -> dict[str, str]:
    """Versions of everything a number depends on."""
    found = {"python": platform.python_version()}
    for package in ("kvicreg", "torch", "numpy", "scikit-learn", "umap-learn"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def measure(interval: Interval, key: str, **settings: Any) -> dict[str, Any]:
    """One entry of results.json: value, bounds, unit, and how the measure was set."""
    return {**interval._asdict(), "unit": MEASURES[key][1], "settings": settings}


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Atomically, as JSON without NaN or Infinity (null instead), so that anything can read it; home folders as ~."""
    text = json.dumps(without_home(_plain(results)), indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(path, text.encode() + b"\n")


def read_results(path: Path) -> dict[str, Any]:
    """What `write_results` wrote."""
    if not path.is_file():
        raise FileNotFoundError(f"{path.parent} has no {path.name}: evaluate it first with kvicreg evaluate")
    try:
        results = json.loads(path.read_text())
        found = results["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged or not written by kvicreg; evaluate the run again") from error
    if found != FORMAT:
        raise ValueError(f"{path} has format {found}, this version reads {FORMAT}; evaluate the run again")
    return dict(results)


def _plain(value: Any) -> Any:
    if isinstance(value, Interval | PairedDifference):
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
