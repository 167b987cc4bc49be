"""Encoders that come with the package: zoo:NAME, wherever the encoder of a run is read."""

from __future__ import annotations

import difflib
import hashlib
import json
from pathlib import Path

from kvicreg.storage import write_atomically

__all__ = ["ZOO", "check_place", "copied", "is_of_zoo", "located", "zoo_names"]

ZOO = Path(__file__).parents[1] / "zoo"
"""Where they lie: a folder for each, as a run leaves its encoder, with a card."""
PREFIX, WEIGHTS = "zoo:", "encoder.safetensors"


def zoo_names() -> list[str]:
    """The encoders that come with the package.

    Example:
        >>> "zoo:mnist" in zoo_names()
        True
    """
    return sorted(f"{PREFIX}{folder.parent.name}" for folder in ZOO.glob("*/encoder.json"))


def is_of_zoo(path: str | Path) -> bool:
    """Whether a path is the name of such an encoder."""
    return str(path).startswith(PREFIX)


def located(path: str | Path) -> Path:
    """Where something lies on disk: a path as it is, zoo:NAME as the folder of that encoder, whole and unchanged."""
    if not is_of_zoo(path):
        return Path(path)
    if str(path) not in zoo_names():
        names = [name.removeprefix(PREFIX) for name in zoo_names()]
        near = difflib.get_close_matches(str(path).removeprefix(PREFIX), names, 1)
        hint = f"did you mean {PREFIX}{near[0]}?" if near else f"there are {', '.join(zoo_names())}"
        raise FileNotFoundError(f"there is no encoder {path}; {hint}")
    folder = ZOO / str(path).removeprefix(PREFIX)
    expected = json.loads((folder / "encoder.json").read_text())["sha256"]
    if hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest() != expected:
        raise ValueError(f"{path} is not the encoder that was published: install kvicreg again")
    return folder


def check_place(name: str | Path, folder: Path) -> None:
    """Refuse a folder for the files of such an encoder that has others in it, or is called like an encoder."""
    source = located(name)
    if is_of_zoo(folder):
        raise ValueError(f"out: expected a folder for the files of {name}, got {folder}, a name that kvicreg reads")
    if folder.exists() and any(folder.iterdir()):
        there = folder / WEIGHTS
        if not there.is_file() or there.read_bytes() != (source / WEIGHTS).read_bytes():
            raise FileExistsError(f"{folder} exists, and is no copy of {name}; choose another --out")


def copied(name: str | Path, folder: Path) -> Path:
    """A run folder of one's own with the files of such an encoder, for what is made of it; it may have been one."""
    check_place(name, folder)
    source = located(name)
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.iterdir(), reverse=True):  # the weights first: a copy that was cut short is known by them
        write_atomically(folder / file.name, file.read_bytes())
    return folder
