"""Training on JPEG files beside a plain loop: a `DataLoader` that opens them with Pillow, and kornia's views.

Both decode in the process that trains and take turns, step by step. In the first epoch we decode as the peer does; from
the second on, images that have been decoded are there.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from kvicreg.benchmarks.peers import published_vicreg
from kvicreg.benchmarks.train import TakeTurns, network_and_step
from kvicreg.benchmarks.views import kornia_views
from kvicreg.data import view_config
from kvicreg.runs import Settings
from kvicreg.training.run import train

__all__ = ["measure"]

SIDE, SIZE = 320, 64  # of the files, and of what the network sees


def measure(batch_size: int, steps: int) -> dict[str, Any]:
    """One row: images per second of our first epoch, of later ones, and of the peer."""
    with tempfile.TemporaryDirectory() as folder:
        write_photographs(Path(folder) / "photos", batch_size * steps)
        settings = Settings.of(
            data=f"{folder}/photos", image_size=SIZE, channels=3, encoder="resnet18", width=0.25, views="natural",
            epochs=3, batch_size=batch_size, workers=0, probe_images=0, accelerator="cpu", out=f"{folder}/run",
        )  # fmt: skip
        turns = TakeTurns(peer_step(settings, Path(folder) / "photos"), 3 * steps, warm_up=0)
        train(settings, quiet=True, callbacks=[turns])
    ours = turns.seconds["kvicreg"]
    parts = {"first epoch": ours[1:steps], "later epochs": ours[steps + 1 :], "peer": turns.seconds.get("peer", [])[1:]}
    rates = {name: round(batch_size / statistics.median(times)) for name, times in parts.items() if times}
    return {
        "case": f"JPEG files of {SIDE}x{SIDE}, ResNet-18 (width 1/4) {SIZE}x{SIZE}",
        "first_epoch_images_per_second": rates["first epoch"],
        "images_per_second": rates["later epochs"],
        "peer_images_per_second": rates.get("peer"),
    }


def write_photographs(folder: Path, count: int) -> None:
    """JPEG files of smooth random colours with some grain."""
    folder.mkdir(parents=True)
    for number in range(count):
        rng = np.random.default_rng(number)
        coarse = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).resize((SIDE, SIDE), 3)
        pixels = np.asarray(coarse, np.int16) + rng.integers(-12, 13, (SIDE, SIDE, 1))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number:06}.jpg", quality=90)


class PillowImages(Dataset[Tensor]):
    """What people write: open, convert, crop the centre, shrink to half above the size of the views."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.iterdir())

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> Tensor:
        side = SIZE * 3 // 2
        with Image.open(self.paths[number]) as image:
            square = ImageOps.fit(image.convert("RGB"), (side, side), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.asarray(square).transpose(2, 0, 1).copy())


def peer_step(settings: Settings, folder: Path) -> dict[str, Callable[[], None]]:
    """A step of the plain loop around the same network; nothing where kornia is not installed."""
    try:
        views = kornia_views(view_config("natural"), 3, SIZE)
    except ImportError:
        return {}
    step = network_and_step(settings)
    loader = DataLoader(PillowImages(folder), settings.schedule.batch_size, shuffle=True, drop_last=True)
    epoch = iter(loader)

    def peer() -> None:
        nonlocal epoch
        images = next(epoch, None)
        if images is None:
            epoch = iter(loader)
            images = next(epoch)
        two = [views(images.float() / 255).to(memory_format=torch.channels_last) for _ in range(2)]
        step(two, published_vicreg)

    return {"peer": peer}
