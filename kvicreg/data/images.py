"""`ImageData`: images by index, with labels where there are any."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from kvicreg.data.intensity import Intensity
from kvicreg.data.pixels import Fit
from kvicreg.storage import counted

__all__ = ["ONE_CLASS", "ImageData", "Names", "PathList", "kind_of"]

ONE_CLASS = "all images are of one class, which counts as no labels"


def kind_of(shape: Sequence[int]) -> str:
    """What images of a shape (channels, height, width) are, in words.

    Example:
        >>> kind_of((1, 28, 28))
        '28x28 grey images'
    """
    channels, height, width = shape
    return f"{height}x{width} {({1: 'grey', 3: 'colour'}).get(channels, f'{channels}-channel')} images"


class Names(Sequence[Path]):
    """The names of images; an item is a `Path`."""

    def text(self, number: int) -> str:
        """A name as text."""
        raise NotImplementedError

    def select(self, numbers: Sequence[int]) -> Names:
        """Some of the names."""
        raise NotImplementedError

    def __getitem__(self, index: Any) -> Any:
        return self.select(range(len(self))[index]) if isinstance(index, slice) else Path(self.text(index))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class PathList(Names):
    """Paths kept as text, for a fraction of the memory that as many `Path` take."""

    texts: list[str]

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.texts = paths.texts if isinstance(paths, PathList) else [os.fspath(path) for path in paths]

    def __len__(self) -> int:
        return len(self.texts)

    def text(self, number: int) -> str:
        return self.texts[number]

    def select(self, numbers: Sequence[int]) -> PathList:
        return PathList(self.texts[number] for number in numbers)


class ImageData:
    """What training and evaluation need of a data set; `ArrayData` and `FileData` are the two kinds.

    Attributes:
        name: the data set's name, or that of its folder.
        split: "train", "val", "test" or "unlabelled".
        shape: (channels, size, size) of every image it gives; images are square, with 1 to 32 channels.
        labels: int64 (n,), or None.
        class_names: names of the labels, or None.
        paths: the files, or None when the images live in memory. A file in an archive, or the row of a table, has the
            archive's or table's path with its own name or number behind.
        intensity: the range of raw values that became 0 to 255, where the source has more than 8 bits; else None.
        notes: sentences about the source that people should be told: what the classes are, what was left out.
        unreadable: the files found to be bad so far, in the order of `paths`.
        loaded_by: the settings that have loaded these images, or None for images from elsewhere.
        stored_in_grey: whether files are in grey that are read in colour unless `channels` says otherwise.
        fit: how images became squares.
        oversize: `for_views` gives images up to so many times as large, where as many pixels are stored.
        cache_limit, cache_folder: bytes of decoded images that `for_views` keeps, and where, if not in memory.

    Example:
        >>> data = load("mnist-small").subset(range(100))
        >>> data.fetch(torch.arange(3)).shape, data.labels_of(torch.arange(3)).dtype
        (torch.Size([3, 1, 28, 28]), torch.int64)
    """

    name: str
    split: str
    shape: tuple[int, int, int]
    labels: Tensor | None = None
    class_names: list[str] | None = None
    paths: Sequence[Path] | None = None
    loaded_by: Any = None
    intensity: Intensity | None = None
    notes: tuple[str, ...] = ()
    stored_in_grey: bool = False
    fit: Fit = "crop"
    oversize: float = 1.5
    cache_limit: int = 10**9
    cache_folder: str | None = None

    def __len__(self) -> int:
        raise NotImplementedError

    def fetch(self, indices: Tensor) -> Tensor:
        """Images (k, c, s, s) of the samples `indices` (k,), with values from 0 to 255.

        They are uint8, or float32 where the source has more than 8 bits (then `intensity` tells of which range).
        """
        raise NotImplementedError

    def stream(self, chunks: Sequence[Tensor], workers: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Images and sample indices of each chunk of indices, in order, read ahead by `workers` processes."""
        for indices in chunks:
            yield self.fetch(indices), indices

    def for_views(self) -> ImageData:
        """The same samples in the size that views are cropped from, so that a small crop has pixels of its own."""
        return self

    def cached(self) -> ImageData:
        """The same samples; what has been decoded once is not decoded again, within `cache_limit`."""
        return self

    @property
    def cache_bytes(self) -> int:
        """Bytes that the decoded images which `for_views` keeps take at most, in each process."""
        return 0

    def subset(self, indices: Tensor | Sequence[int]) -> ImageData:
        """The samples `indices` as a data set of its own; labels follow."""
        raise NotImplementedError

    @property
    def in_memory(self) -> bool:
        return self.paths is None

    @property
    def unreadable(self) -> list[Path]:
        return []

    @property
    def is_of_one_class(self) -> bool:
        """Whether all labels are the same, so that there is nothing to tell apart."""
        return self.labels is not None and len(self.labels.unique()) == 1

    def labels_of(self, indices: Tensor) -> Tensor | None:
        """Labels (k,) of the samples `indices`, or None."""
        return None if self.labels is None else self.labels[indices]

    def __repr__(self) -> str:
        c, h, w = self.shape
        classes = "unlabelled" if self.labels is None else counted(len(self.class_names or ()), "class")
        size = f"{counted(len(self), 'image')} {c}x{h}x{w}"
        return f"{type(self).__name__}({self.name!r}, {self.split!r}: {size}, {classes})"
