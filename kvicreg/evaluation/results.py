"""Entries of the results: a value with its interval and unit, and the versions that a number depends on."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

from kvicreg.evaluation.intervals import Interval
from kvicreg.runs.results import MEASURES

__all__ = ["measure", "versions"]


def measure(interval: Interval, key: str, **settings: Any) -> dict[str, Any]:
    """One entry of the results: value, bounds, unit, and how the measure was set."""
    return {**interval._asdict(), "unit": MEASURES[key].unit, "settings": settings}


def versions() -> dict[str, str]:
    """Versions of everything a number depends on."""
    installed = {"python": platform.python_version()}
    for package in ("kvicreg", "torch", "numpy", "scikit-learn", "umap-learn"):
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            installed[package] = "not installed"
    return installed
