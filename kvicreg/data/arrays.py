"""`ArrayData`: images that live in memory, or in a memory-mapped file."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kvicreg.data.images import ImageData
from kvicreg.data.intensity import Intensity, intensity_rule, measure_intensity
from kvicreg.data.labels import number_labels
from kvicreg.data.pixels import check_channels
from kvicreg.data.transforms import LUMA

__all__ = ["ArrayData", "resized"]

_MEASURED = int(2e8)  # values of which the range is measured; of more, evenly spaced images


class ArrayData(ImageData):
    """Images in an array: torch or numpy, of whole numbers or floats, which may be memory-mapped.

    Values of 8 bits are taken as they are; others are mapped to 0 to 255 by a range that is measured, or given.

    Args:
        images: (n, channels, size, size), (n, size, size, channels) or (n, size, size) for grey. Of images that are not
            square the centre is taken.
        labels: n whole numbers or names, or None. Without `class_names` they may have gaps: the classes are the
            distinct ones, sorted.
        class_names: names of the labels 0, 1, ...; give them where several arrays must agree.
        intensity: the range, or "minmax" or a percentage to cut off at either end, such as "0.5%".

    Example:
        >>> data = ArrayData(torch.zeros(10, 1, 28, 28, dtype=torch.uint8), labels=torch.arange(10))
        >>> data.fetch(torch.tensor([3, 1])).shape
        torch.Size([2, 1, 28, 28])
    """

    def __init__(
        self,
        images: Tensor | np.ndarray,
        labels: Any = None,
        *,
        name: str = "array",
        split: str = "train",
        class_names: list[str] | None = None,
        intensity: str | Intensity = "minmax",
    ) -> None:
        self.images, notes = _checked(images)
        self._rows: Tensor | None = None  # of a subset: which of the images it has, which may be memory-mapped
        self.name, self.split, self.class_names = name, split, class_names
        if labels is not None:
            if len(labels) != len(self.images):
                raise ValueError(f"labels: expected {len(self.images)} whole numbers or names, got {len(labels)}")
            self.labels, self.class_names = number_labels(labels, class_names, source=f"labels of {name!r}")
        _, channels, size, _ = self.images.shape
        self.shape = (channels, size, size)
        if isinstance(self.images, np.ndarray):
            self.intensity = self._measured(intensity)
            notes.append(f"values of type {self.images.dtype}: intensity {self.intensity.text} is black to white")
        self.notes = tuple(notes)

    def __len__(self) -> int:
        return len(self.images) if self._rows is None else len(self._rows)

    def fetch(self, indices: Tensor) -> Tensor:
        indices = indices if self._rows is None else self._rows[indices]
        if isinstance(self.images, Tensor):
            images = self.images[indices]
        else:
            assert self.intensity is not None
            values = self.images[indices.numpy()]
            _check_finite(values, self.name, indices)
            images = torch.from_numpy(self.intensity.apply(values, axis=1))
        return resized(images, *self.shape[:2]).contiguous()

    def raw(self, number: int) -> Tensor | np.ndarray:
        """The values (c, s, s) of a sample as they are stored."""
        images: Tensor | np.ndarray = self.images[number if self._rows is None else int(self._rows[number])]
        return images

    def subset(self, indices: Tensor | Sequence[int]) -> ArrayData:
        indices = torch.as_tensor(indices)
        part = copy.copy(self)
        part._rows = indices.long() if self._rows is None else self._rows[indices]
        part.labels = self.labels_of(indices)
        return part

    def in_shape(self, size: int | None, channels: int | None) -> ArrayData:
        """The same images, brought to a size and to so many channels when they are fetched."""
        stored = self.images.shape[1]
        channels = stored if channels is None else channels
        check_channels(channels)
        if stored not in (1, channels) and (stored, channels) != (3, 1):
            raise ValueError(f"channels: the images of {self.name!r} have {stored}, expected {channels}")
        size = self.images.shape[2] if size is None else size
        part = copy.copy(self)
        part.shape = (channels, size, size)
        return part

    def for_views(self) -> ArrayData:
        size = max(self.shape[1], min(self.images.shape[2], round(self.oversize * self.shape[1])))
        return self if size == self.shape[1] else self.in_shape(size, self.shape[0])

    def _measured(self, rule: str | Intensity) -> Intensity:
        fixed = rule if isinstance(rule, Intensity) else intensity_rule(rule)
        if isinstance(fixed, Intensity):
            return fixed
        limit = max(1, _MEASURED // max(1, math.prod(self.images.shape[1:])))
        step = max(1, -(-len(self) // limit))
        chunks = (self.images[start : start + 64 * step : step] for start in range(0, len(self), 64 * step))
        measured = measure_intensity(map(self._channels_last, chunks), fixed)
        return Intensity((0.0,), (1.0,)) if measured is None else measured

    def _channels_last(self, values: Any) -> np.ndarray:
        _check_finite(values, self.name)
        return np.moveaxis(values, 1, -1)


def _checked(images: Any) -> tuple[Tensor | np.ndarray, list[str]]:
    """Images (n, c, s, s), as a tensor of uint8 or an array of other numbers; and what was done to get there."""
    if isinstance(images, Tensor):
        images = images.detach().cpu()
        images = images.float() if images.dtype == torch.bfloat16 else images
    array = images.numpy() if isinstance(images, Tensor) else np.asarray(images)
    if array.dtype.kind not in "iuf" or array.ndim not in (3, 4) or 0 in array.shape[1:]:
        raise ValueError(
            f"images: expected a tensor or array of numbers (n, channels, size, size), got {array.dtype} {array.shape}"
        )
    array, notes = array[:, None] if array.ndim == 3 else array, []
    _, first, second, third = array.shape
    if second != third and (first == second or third < first):
        array = np.moveaxis(array, -1, 1)
    check_channels(array.shape[1])
    height, width = array.shape[2:]
    if height != width:
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        array = array[:, :, top : top + side, left : left + side]
        notes.append(f"the images have {height}x{width} pixels: the square in their centre is taken")
    if array.dtype != np.uint8:
        return array, notes
    if isinstance(images, Tensor) and images.shape == array.shape:
        return images, notes
    return torch.from_numpy(array if array.flags.writeable else array.copy()), notes


def _check_finite(values: np.ndarray, name: str, indices: Tensor | None = None) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values).all((1, 2, 3)))[0])
        which = "an image" if indices is None else f"image {int(indices[row])}"
        raise ValueError(f"images of {name!r}: {which} has values that are not finite (NaN or infinity)")


def resized(images: Tensor, channels: int, size: int) -> Tensor:
    """Images of the channels and size that are wanted; untouched when they have them."""
    if images.shape[1] == 3 and channels == 1:
        grey = (images * torch.tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
        images = grey.round().to(torch.uint8) if images.dtype == torch.uint8 else grey
    elif images.shape[1] != channels:
        images = images.expand(-1, channels, -1, -1)
    if size != images.shape[2]:
        images = torch.nn.functional.interpolate(images, (size, size), mode="bilinear", antialias=True)
    return images
