"""Settings as YAML: the recipes that are shipped, files of one's own, and the config file of a run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from kvicreg.options import did_you_mean
from kvicreg.runs.settings import Settings
from kvicreg.storage import read_yaml

__all__ = ["dump_settings", "load_settings", "recipe", "recipes"]

RECIPES = Path(__file__).parent / "recipes"
REMOVED = ("wandb",)
"""Settings that there were before, and that config files of runs may still have, as null."""


def recipes() -> dict[str, dict[str, Any]]:
    """Shipped recipes by name; names that begin with a dot are parts shared by others."""
    files = [_read_table(path) for path in sorted(RECIPES.glob("*.yaml"))]
    return {name: recipe for file in files for name, recipe in file.items() if not name.startswith(".")}


def recipe(name_or_path: str | Path) -> dict[str, Any]:
    """The settings that a recipe gives by flat name: one of the shipped ones, or any YAML file of settings."""
    path, name = Path(name_or_path), str(name_or_path)
    if path.is_file():
        return _read_table(path)
    if name not in recipes():
        hint = did_you_mean(name, recipes())
        raise FileNotFoundError(f"config {name!r} is neither a file nor a shipped recipe; {hint}")
    return recipes()[name]


def load_settings(name_or_path: str | Path) -> Settings:
    """The settings of a shipped recipe by name, or of any YAML file of settings.

    Example:
        >>> load_settings("mnist").schedule.batch_size
        64
    """
    try:
        given = recipe(name_or_path)
        return Settings.of(**{name: value for name, value in given.items() if value is not None or name not in REMOVED})
    except ValueError as error:
        raise ValueError(f"{name_or_path}: {error}") from error


def dump_settings(settings: Settings) -> str:
    """Settings as YAML, in the order of their groups, ready for `load_settings`."""
    import yaml

    parts = []
    for f in fields(settings):
        part = getattr(settings, f.name)
        values = part.flat()
        if "family" in f.metadata:
            values = {f.name: part.choice, **values}
        parts.append(f"# {f.name}\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True)}")
    return "\n".join(parts)


def _read_table(path: Path) -> dict[str, Any]:
    values = read_yaml(path) or {}
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected lines like 'epochs: 20', got {type(values).__name__}")
    return {str(name): value for name, value in values.items()}
