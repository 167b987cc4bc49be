"""Settings of runs, made from flat names; and the settings that old result files recorded, read as today's."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from kvicreg.training.config import TrainConfig as Settings
from kvicreg.training.config import load_config as recipe

from kvicreg.training.build import with_loss_defaults

__all__ = ["Settings", "changed", "flat", "identity", "make", "own", "recipe", "run_name"]

ELSEWHERE = ("out", "data_root")
"""Settings that say where things lie, and have no part in what a run is."""


def make(**settings: Any) -> Settings:
    """Settings from flat names; the others have their defaults."""
    return Settings(**settings)


def changed(settings: Settings, **changes: Any) -> Settings:
    """The settings with some changed."""
    return replace(settings, **changes)


def flat(settings: Settings) -> dict[str, Any]:
    """Every setting by name, as JSON has it, with the loss's defaults filled in."""
    values = {**asdict(with_loss_defaults(settings)), **dict.fromkeys(ELSEWHERE)}
    plain: dict[str, Any] = json.loads(json.dumps(values))
    return plain


def own(settings: Settings) -> dict[str, Any]:
    """The settings that are not at their defaults."""
    usual = asdict(Settings())
    return {k: v for k, v in asdict(settings).items() if v != usual[k] and k not in ELSEWHERE}


def run_name(settings: Settings) -> str:
    """Data, method and seed of a run, for people who look at its folder."""
    kind = settings.kernel if settings.method == "kernel-vicreg" else settings.method
    kind += f"-{settings.kernel}" if settings.uses_kernel and settings.kernel != kind else ""
    return f"{Path(settings.data).name}-{kind}-{settings.seed}"


def identity(recorded: dict[str, Any]) -> dict[str, Any]:
    """What a run is, from the flat settings that a row of any age recorded.

    Two rows are of the same run if this agrees. A setting that did not exist then has the value it has now when nobody
    gives it; one that is gone is left out.
    """
    names = {field.name for field in fields(Settings)}
    return flat(Settings(**{name: value for name, value in recorded.items() if name in names}))
