"""Criteria of a whole study: each candidate's own, and those that compare the candidates with each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from kvicreg.selection.criteria import combination, consensus

__all__ = ["study_criteria"]


def study_criteria(measured: Mapping[str, Mapping[str, Any]], neighbours: Mapping[str, Tensor]) -> dict[str, Any]:
    """Values of all criteria by candidate, for candidates measured after the same number of steps."""
    agreed = consensus(neighbours)
    rows = {name: {**found["criteria"], "consensus": agreed[name]} for name, found in measured.items()}
    combined = combination(rows)
    return {name: {**row, "combination": combined[name]} for name, row in rows.items()}
