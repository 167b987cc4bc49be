"""Batches of an epoch, as arithmetic: which samples are in global batch k depends on (seed, epoch, k) alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from kvicreg.data.addresses import permutation
from kvicreg.data.images import ImageData

Batch = tuple[Tensor, Tensor, Tensor | None]  # uint8 images (k, c, s, s), sample indices (k,), labels (k,) or None


def count_batches(n: int, batch_size: int, *, drop_last: bool = True) -> int:
    """How many global batches an epoch of `n` samples has.

    Example:
        >>> count_batches(1000, 256), count_batches(1000, 256, drop_last=False)
        (3, 4)
    """
    return n // batch_size if drop_last else -(-n // batch_size)


def batches(
    data: ImageData,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    start: int = 0,
    rank: int = 0,
    world_size: int = 1,
    workers: int = 0,
    drop_last: bool = True,
) -> Iterator[Batch]:
    """The shuffled batches of an epoch, from global batch `start` on, as one process sees them.

    Args:
        batch_size: samples in a global batch, over all processes; each gets its contiguous slice of it.
        start: batches to skip, without touching their images.
        workers: processes that decode files; data in memory needs none.
        drop_last: leave out a last batch that is not full.

    Yields:
        images, samples, labels: images in the size that views are cropped from (`ImageData.for_views`); where a file
        could not be read, the replacement's index and label.

    Example:
        >>> images, samples, labels = next(batches(load("mnist-small"), 32, seed=0, epoch=0))
        >>> images.shape
        torch.Size([32, 1, 28, 28])
    """
    if batch_size < 1 or batch_size % world_size:
        raise ValueError(f"batch_size: expected a multiple of the {world_size} processes, got {batch_size}")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank: expected 0 to {world_size - 1}, got {rank}")
    total = count_batches(len(data), batch_size, drop_last=drop_last)
    if total == 0:
        raise ValueError(f"batch_size: {batch_size} is more than the {len(data)} images of {data.name!r}; choose less")
    if not 0 <= start <= total:
        raise ValueError(f"start: expected 0 to {total}, the batches of an epoch, got {start}")
    chunks = torch.split(permutation(len(data), seed=seed, epoch=epoch), batch_size)[start:total]
    return _fetched(data.for_views(), [torch.tensor_split(chunk, world_size)[rank] for chunk in chunks], workers)


def in_order(data: ImageData, batch_size: int, *, workers: int = 0) -> Iterator[Batch]:
    """Every sample once, in the order of the data set: for evaluation and embedding.

    Example:
        >>> [len(images) for images, *_ in in_order(load("mnist-small").subset(range(50)), 32)]
        [32, 18]
    """
    return _fetched(data, list(torch.split(torch.arange(len(data)), batch_size)), workers)


def _fetched(data: ImageData, chunks: list[Tensor], workers: int) -> Iterator[Batch]:
    for images, samples in data.stream(chunks, workers):
        yield images, samples, data.labels_of(samples)
