"""Settings of the images to train on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

from kvicreg.data.arrays import ArrayData
from kvicreg.data.given import given_name
from kvicreg.data.groups import read_groups
from kvicreg.data.images import ImageData
from kvicreg.data.loading import load
from kvicreg.data.parts import first_images, hold_out
from kvicreg.data.sources import ReadOptions
from kvicreg.options import Options, option

__all__ = ["DataOptions"]


@dataclass(frozen=True, kw_only=True)
class DataOptions(Options):
    """Which images a run is trained on."""

    source: str = option(
        "mnist-small",
        "Data set by name, or images of your own: folder, archive, table, array, list.",
        flag="data",
    )
    root: str | None = option(
        None, "Where downloaded data sets live; by default KVICREG_DATA or the user's cache.", flag="data_root"
    )
    split: Literal["train", "unlabelled"] = option("train", "Images to pretrain on.")
    image_size: int | None = option(None, "Side of the images in pixels; by default the data set's own.", above=0)
    channels: int | None = option(
        None, "Channels of the images: 1 for grey, 3 for color, up to 32; by default the data set's own.",
        at_least=1, at_most=32,
    )  # fmt: skip
    reading: ReadOptions = field(default_factory=ReadOptions)
    images: int | None = option(
        None, "Pretrain on only so many images, drawn alike for every seed; by default all.", above=0
    )
    holdout: int = option(
        0, "Training images set aside for validation, alike for every seed: pretraining never sees them.", at_least=0
    )
    oversize: float = option(
        1.5,
        "Views are cropped from images up to so many times the image size, where files have as many pixels.",
        at_least=1,
        at_most=8,
    )
    cache_mb: int = option(
        1000, "Megabytes of decoded images that each process keeps, so that files are decoded once.", at_least=0
    )
    cache_folder: str | None = option(None, "Folder on disk to keep decoded images in, instead of memory.")
    workers: int | None = option(
        None, "Processes that decode image files, by default up to 4; data in memory needs none.", at_least=0
    )

    @property
    def short_name(self) -> str:
        """The source's name without its path."""
        return given_name(self.source) or Path(self.source).name or "images"

    def whole(self) -> ImageData:
        """All images of the source."""
        data = load(
            self.source, self.split, root=self.root, image_size=self.image_size, channels=self.channels,
            **self.reading.given(),
        )  # fmt: skip
        data.oversize, data.cache_limit, data.cache_folder = self.oversize, self.cache_mb * 10**6, self.cache_folder
        return data

    def part(self, data: ImageData) -> ImageData:
        """What is left of all images without those held out, or as many of them as the settings say."""
        data, _ = hold_out(data, self.holdout)
        return data if self.images is None else first_images(data, self.images)

    def load(self) -> ImageData:
        """The images to train on."""
        data = self.part(self.whole())
        data.loaded_by = self
        return data

    def groups(self, source: str, data: ImageData) -> list[str]:
        """The group of each of the images to train on, `data`; a file of groups has a row for each of all images."""
        if self.images is None and self.holdout == 0:
            return read_groups(source, data)
        whole = self.whole()
        names = read_groups(source, whole)
        numbered = ArrayData(torch.zeros(len(whole), 1, 1, 1, dtype=torch.uint8), torch.arange(len(whole)))
        rows = self.part(numbered).labels
        assert rows is not None
        return [names[row] for row in rows.tolist()]
