"""`ImageData`: images by index, as uint8, with labels where there are any."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


class PathList(Sequence[Path]):
    """Paths kept as text, for a fraction of the memory that as many `Path` take. An item is a `Path`."""

    texts: list[str]

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.texts = paths.texts if isinstance(paths, PathList) else [os.fspath(path) for path in paths]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: Any) -> Any:
        return PathList(self.texts[index]) if isinstance(index, slice) else Path(self.texts[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class ImageData:
    """What training and evaluation need of a data set; `ArrayData` and `FileData` are the two kinds.

    Attributes:
        name: the data set's name, or that of its folder.
        split: "train", "test" or "unlabelled".
        shape: (channels, size, size) of every image it gives; images are square.
        labels: int64 (n,), or None.
        class_names: names of the labels, or None.
        paths: the files, or None when the images live in memory.
        unreadable: the files found to be bad so far, in the order of `paths`.

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

    def __len__(self) -> int:
        raise NotImplementedError

    def fetch(self, indices: Tensor) -> Tensor:
        """Images (k, c, s, s), uint8, of the samples `indices` (k,)."""
        raise NotImplementedError

    def stream(self, chunks: Sequence[Tensor], workers: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Images and sample indices of each chunk of indices, in order, read ahead by `workers` processes."""
        for indices in chunks:
            yield self.fetch(indices), indices

    def subset(self, indices: Tensor | Sequence[int]) -> ImageData:
        """The samples `indices` as a data set of its own; labels follow."""
        raise NotImplementedError

    @property
    def in_memory(self) -> bool:
        return self.paths is None

    @property
    def unreadable(self) -> list[Path]:
        return []

    def labels_of(self, indices: Tensor) -> Tensor | None:
        """Labels (k,) of the samples `indices`, or None."""
        return None if self.labels is None else self.labels[indices]

    def __repr__(self) -> str:
        c, h, w = self.shape
        classes = "unlabelled" if self.labels is None else f"{len(self.class_names or ())} classes"
        size = f"{len(self):,} images {c}x{h}x{w}"
        return f"{type(self).__name__}({self.name!r}, {self.split!r}: {size}, {classes})"


class ArrayData(ImageData):
    """Images that live in memory: a uint8 tensor (n, c, s, s), which may be a view of a memory-mapped file.

    Example:
        >>> data = ArrayData(torch.zeros(10, 1, 28, 28, dtype=torch.uint8), labels=torch.arange(10))
        >>> data.fetch(torch.tensor([3, 1])).shape
        torch.Size([2, 1, 28, 28])
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor | None = None,
        *,
        name: str = "array",
        split: str = "train",
        class_names: list[str] | None = None,
    ) -> None:
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[2] != images.shape[3]:
            raise ValueError(
                f"images: expected a uint8 tensor (n, channels, size, size), got {images.dtype} {tuple(images.shape)}"
            )
        if labels is not None and (labels.shape != images.shape[:1] or labels.is_floating_point()):
            raise ValueError(f"labels: expected {len(images)} whole numbers, got {labels.dtype} {tuple(labels.shape)}")
        self.images = images
        self.labels = None if labels is None else labels.long()
        self.name, self.split = name, split
        self.shape = (images.shape[1], images.shape[2], images.shape[3])
        if self.labels is not None and len(self.labels):
            low, high = int(self.labels.min()), int(self.labels.max())
            if low < 0 or (class_names is not None and high >= len(class_names)):
                expected = "at least 0" if class_names is None else f"0 to {len(class_names) - 1}"
                raise ValueError(f"labels of {name!r}: expected {expected}, got {low} to {high}")
            class_names = [str(k) for k in range(high + 1)] if class_names is None else class_names
        self.class_names = class_names

    def __len__(self) -> int:
        return len(self.images)

    def fetch(self, indices: Tensor) -> Tensor:
        return self.images[indices].contiguous()

    def subset(self, indices: Tensor | Sequence[int]) -> ArrayData:
        indices = torch.as_tensor(indices)
        labels = self.labels_of(indices)
        return ArrayData(self.images[indices], labels, name=self.name, split=self.split, class_names=self.class_names)
