"""What a run is, by its settings: for rows that are measured now, and for rows whose settings had other names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvicreg.options import Values
from kvicreg.runs import Settings

ELSEWHERE = ("out", "data_root")
"""Settings that say where things lie, and have no part in what a run is."""
RENAMED = {"spread_weight": "hsic_weight", "scale": "zoom"}


def flat(settings: Settings) -> dict[str, Any]:
    """Every setting that is read, by name, with the method's own defaults written out."""
    values = settings.resolved_method().flat()
    values |= {"groups": Path(values["groups"]).name} if values.get("groups") else {}
    return {name: value for name, value in values.items() if name not in ELSEWHERE}


def identity(recorded: dict[str, Any]) -> dict[str, Any]:
    """What a run is, from the settings that a row of any age recorded.

    A row used to have every setting of every method, most of them unread, and the views' strengths in a table of their
    own. A setting that did not exist then has the value it has now when nobody gives it.
    """
    given = {**recorded, **recorded.get("view", {})}
    given = {RENAMED.get(name, name): value for name, value in given.items() if value is not None}
    return flat(Settings.read(Values({name: value for name, value in given.items() if name not in ELSEWHERE})))
