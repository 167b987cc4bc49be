"""`kvicreg select`: facts of the images, the study, the ranking, and advice, in this order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvicreg.data import ImageData, first_images
from kvicreg.selection.advice import advise_on_data, advise_on_ranking
from kvicreg.selection.facts import facts
from kvicreg.selection.select import Plan, open_study, start_study, work, write_selection
from kvicreg.training.build import build_data
from kvicreg.training.config import TrainConfig

__all__ = ["select"]

Say = Callable[[str], None]


def select(
    folder: Path,
    config: TrainConfig | None = None,
    choice: dict[str, Any] | None = None,
    *,
    data: ImageData | None = None,
    quiet: bool = False,
    say: Say = print,
) -> tuple[Plan, dict[str, Any]]:
    """Start a study in `folder`, or without a config continue or join the one that is there; returns its ranking."""
    if config is None:
        study = open_study(folder)
        data = build_data(study.config) if data is None else data
    else:
        data = build_data(config) if data is None else data
        study = start_study(folder, config, choice or {"budget": "2000steps"}, data)
    about = facts(first_images(data, min(2000, len(data))), study.config)
    told = advise_on_data(about, len(data))
    for line in told:
        say(line)
    rungs = ", ".join(f"{rung.candidates} for {rung.steps} steps" for rung in study.rungs)
    say(f"Candidates: {rungs}; ranked by {study.criterion}, which looks at no label. Another process may join in.")
    found = work(study, data=data, quiet=quiet)
    found |= {"data": data.name, "images": len(data), "facts": about}
    found |= {"rungs": [{"steps": rung.steps, "candidates": rung.candidates} for rung in study.rungs]}
    found["advice"] = advise_on_ranking(found) + told
    write_selection(study, found)
    return study, found
