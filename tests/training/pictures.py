"""Images that have a number and a size alone, for plans that nobody trains by."""

from __future__ import annotations

import torch

from kvicreg.data.images import ImageData
from kvicreg.runs import Settings

CPU, GPU = torch.device("cpu"), torch.device("cuda")
MEGABYTE = 10**6
OWN = Settings.of(data="photographs")


class Pictures(ImageData):
    """So many images of a size, from the folder of the settings or from Python."""

    cache_bytes = 0

    def __init__(self, count=1000, side=64, settings=OWN, **more) -> None:
        self.name, self.split, self.count, self.shape = "photographs", "train", count, (3, side, side)
        self.loaded_by = None if settings is None else settings.data
        self.__dict__ |= more

    def __len__(self) -> int:
        return self.count
