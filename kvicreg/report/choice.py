"""The part of the page about the choice of the kernel: the ranking of a selection, and advice in words."""

from __future__ import annotations

from typing import Any

from kvicreg.report.read import RunRecord
from kvicreg.storage import without_home

SHOWN = ("rankme", "effective_rank", "lidar", "retrieval", "neighbours", "clusters", "consensus", "loss")


def choices(runs: list[RunRecord], advice: dict[str, list[str]]) -> list[dict[str, Any]]:
    """For each run that there is something to say of: sentences, and the ranking of the selection it has won."""
    rows = [
        {
            "name": run.name,
            "advice": advice.get(run.name, []),
            "ranking": None if run.selection is None else _ranking(run.selection),
        }
        for run in runs
    ]
    return [row for row in rows if row["advice"] or row["ranking"]]


def _ranking(selection: dict[str, Any]) -> dict[str, Any]:
    """Candidates down, the criterion and some others across."""
    criterion = selection["criterion"]
    columns = [criterion, *(name for name in SHOWN if name != criterion)]
    rows = [
        {
            "name": row["candidate"],
            "steps": f"{row['steps']:,}",
            "cells": [_number(row["criteria"].get(name)) for name in columns],
            "error": without_home(row["error"]),
        }
        for row in selection["ranking"]
    ]
    return {"columns": [name.replace("_", " ") for name in columns], "rows": rows}


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
