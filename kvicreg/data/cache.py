"""`DecodedImages`: images that have been decoded once are kept, within a limit, in memory or in a file."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["DecodedImages"]


class DecodedImages:
    """The first images of a data set by index, as many as fit into a limit; the others are decoded each time.

    Every image is needed once in an epoch, in random order: which of them are kept makes no difference, and none has to
    make room for another. Memory is taken as images come.

    Args:
        count: images in the data set.
        shape: (c, s, s) of each.
        limit: bytes that they may take.
        folder: where a file takes them in place of memory; it is gone with the process, however that ends.
    """

    def __init__(
        self,
        count: int,
        shape: tuple[int, int, int],
        dtype: torch.dtype,
        limit: int,
        folder: str | Path | None = None,
    ) -> None:
        self._made_with = (count, shape, dtype, limit, folder)
        self.shape, self.dtype, self.folder = shape, dtype, folder
        self.capacity = min(count, limit // self.bytes_each)
        self._present = torch.zeros(self.capacity, dtype=torch.bool)
        self._images: Tensor | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._made_with  # another process begins with none

    @property
    def bytes_each(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes that the images take when all that fit are there."""
        return self.capacity * self.bytes_each

    def has(self, indices: Tensor) -> Tensor:
        """Which of the samples are here, bool (k,)."""
        inside = indices < self.capacity
        inside[inside.clone()] = self._present[indices[inside]]
        return inside

    def take(self, indices: Tensor) -> Tensor:
        """The images of samples that are here."""
        assert self._images is not None
        return self._images[indices]

    def put(self, indices: Tensor, images: Tensor) -> None:
        """Keep the images of those samples that there is room for."""
        fits = indices < self.capacity
        if not bool(fits.any()):
            return
        if self._images is None:
            self._images = self._room()
        self._images[indices[fits]] = images[fits]
        self._present[indices[fits]] = True

    def _room(self) -> Tensor:
        shape = (self.capacity, *self.shape)
        if self.folder is None:
            return torch.empty(shape, dtype=self.dtype)
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.folder) as file:
            if hasattr(os, "posix_fallocate"):  # a disk without room says so now; a mapped file could only crash
                os.posix_fallocate(file.fileno(), 0, self.nbytes)
            kind = np.uint8 if self.dtype == torch.uint8 else np.float32
            return torch.from_numpy(np.memmap(file, kind, "w+", shape=shape))
