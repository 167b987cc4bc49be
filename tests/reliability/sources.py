"""Bad sources of images: archives, tables, arrays and shards that are damaged in their files or in their index."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from tests.data import source_files
from tests.reliability.damage import spoil, spoil_npz

__all__ = ["prepare_sources", "sources"]

FORMS = [*source_files.MAKERS, source_files.tensors]


def prepare_sources(base: Path) -> None:
    """A right source of every kind, to spoil."""
    for form in FORMS:
        place = base / "sources" / form.__name__
        place.mkdir(parents=True)
        (place / "source.txt").write_text(str(form(place).relative_to(place)))


def sources(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """A source with one or two of its files spoilt, or one of them missing, read by a command."""
    os.environ["KVICREG_DATA"] = str(folder / "cache")  # where indexes of shards are kept
    form = chance.choice(FORMS).__name__
    shutil.copytree(base / "sources" / form, folder / "source")
    source = folder / "source" / (folder / "source" / "source.txt").read_text()
    (folder / "source" / "source.txt").unlink()
    files = sorted(path for path in (folder / "source").rglob("*") if path.is_file())
    others = [path for path in files if path.suffix != ".png"] or files  # where a kind has files beside its images
    for path in chance.sample(others, min(len(others), chance.choice((1, 1, 2)))):
        if chance.random() < 0.1:
            path.unlink()
        elif path.suffix == ".npz" and chance.random() < 0.5:
            spoil_npz(chance, path)
        else:
            path.write_bytes(spoil(chance, path.read_bytes()))
    split = chance.choice(("train", "train", "val"))
    if chance.random() < 0.3:
        return ["data", "pack", str(source), "--out", str(folder / "packed")]
    if chance.random() < 0.3:
        out = ["--out", str(folder / "e.npz"), "--split", split, "--workers", "0"]
        return ["embed", str(base / "run"), str(source), *out]
    return ["data", "show", str(source), "--split", split, "--images", "12", "--out", str(folder / "sheet.png")]
