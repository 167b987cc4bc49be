"""Stripes, made as they are needed: ``--data stripes:500``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor

from kvicreg.data import ImageData
from kvicreg.data.sources.base import ReadOptions, TextSource

__all__ = ["Stripes", "StripesSource"]


class Stripes(ImageData):
    """Grey images 16x16: number i has stripes of i modulo 6 plus 2 pixels, which is its label, moved by i pixels."""

    def __init__(self, numbers: Tensor) -> None:
        self.numbers, self.name, self.split, self.shape = numbers, "stripes", "train", (1, 16, 16)
        self.labels, self.class_names = numbers % 6, [f"{width} pixels" for width in range(2, 8)]

    def __len__(self) -> int:
        return len(self.numbers)

    def fetch(self, indices: Tensor) -> Tensor:
        numbers = self.numbers[indices][:, None]
        is_white = (torch.arange(16) + numbers) // (numbers % 6 + 2) % 2
        return (255 * is_white).to(torch.uint8)[:, None, None].expand(-1, 1, 16, 16)

    def subset(self, indices: Tensor | Sequence[int]) -> Stripes:
        return Stripes(self.numbers[torch.as_tensor(indices)])


class StripesSource(TextSource):
    """As many stripes as the number behind the colon says."""

    kind = "a number of stripes"
    reads = frozenset()

    @classmethod
    def accepts(cls, text: str) -> bool:
        return re.fullmatch(r"stripes:\d+", text) is not None

    @classmethod
    def open(cls, text: str, split: str, options: ReadOptions) -> Stripes:
        count = int(text.partition(":")[2])
        first = 0 if split == "train" else count
        return Stripes(torch.arange(first, first + count))
