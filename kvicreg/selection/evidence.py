"""What the labelled data sets have taught about choosing without labels: evidence.json, written by
`kvicreg reproduce selection` and shipped with the package."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

__all__ = ["NO_EVIDENCE", "read_evidence"]

NO_EVIDENCE: dict[str, Any] = {"criterion": "combination", "correlations": {}, "regret": {}, "data": {}}
"""Before anything was measured."""


def read_evidence() -> dict[str, Any]:
    """The default criterion, each criterion's rank correlation with the probe, and what won on which data."""
    file = resources.files("kvicreg.selection").joinpath("evidence.json")
    if not file.is_file():
        return NO_EVIDENCE
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
