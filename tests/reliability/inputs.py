"""The makers of bad input by kind: each writes files into a folder and gives the command line that reads them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

from kvicreg.cli import main
from kvicreg.data import catalogue
from tests.reliability.files import archives, binary, lists
from tests.reliability.pictures import images, picture
from tests.reliability.run_files import checkpoints, run_folders
from tests.reliability.sources import prepare_sources, sources
from tests.reliability.words import SMALL, flags, recipes

Maker = Callable[[random.Random, Path, Path], list[str]]

KINDS: dict[str, Maker] = {
    "images": images,
    "binary data": binary,
    "recipes": recipes,
    "run folders": run_folders,
    "flags": flags,
    "images again": images,
    "checkpoints": checkpoints,
    "lists": lists,
    "archives": archives,
    "flags again": flags,
    "sources": sources,
}


def prepare(base: Path) -> None:
    """Right files to spoil: a folder of images, a finished and evaluated run, binary data sets."""
    chance = random.Random(0)
    for split, count in (("train", 24), ("test", 8)):
        for k in range(count):
            place = base / "images" / split / "ab"[k % 2]
            place.mkdir(parents=True, exist_ok=True)
            picture(chance).resize((16, 16)).convert("RGB").save(place / f"{k}.png")
    run = base / "run"
    arguments = ["--data", str(base / "images"), "--image-size=16", "--epochs=2", f"--out={run}", *SMALL]
    assert main(["train", *arguments]) == 0
    assert main(["evaluate", str(run), "--robustness-images=0", "--map-images=0"]) == 0
    prepare_sources(base)
    cifar, mnist = base / "data" / "cifar10", base / "data" / "mnist"
    cifar.mkdir(parents=True)
    mnist.mkdir()
    rows = np.random.default_rng(0).integers(0, 10, (12, 3073), dtype=np.uint8)
    for name in catalogue.DATA_SETS["cifar10"].files:
        rows.tofile(cifar / name)
    for name in catalogue.DATA_SETS["mnist"].files:
        shape = (12, 28, 28) if "idx3" in name else (12,)
        header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes()
        (mnist / name).write_bytes(header + rows.ravel()[: int(np.prod(shape))].tobytes())
