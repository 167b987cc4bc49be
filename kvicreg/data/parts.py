"""Parts of a training set that every run agrees on: images set aside for validation, and smaller sets of the rest."""

from __future__ import annotations

from kvicreg.data.addresses import permutation
from kvicreg.data.images import ImageData

_HELD_OUT, _FIRST = -101, -102  # addresses of the two orders, apart from those of training


def hold_out(data: ImageData, count: int) -> tuple[ImageData, ImageData | None]:
    """The images to train on and the `count` set aside (None for none), the same ones for every seed of training.

    Example:
        >>> train_images, others = hold_out(load("mnist-small"), 1000)
        >>> len(train_images), len(others)
        (7000, 1000)
    """
    if count == 0:
        return data, None
    if not 0 < count < len(data):
        raise ValueError(f"holdout: expected 0 to {len(data) - 1} of the {len(data)} images, got {count}")
    order = permutation(len(data), seed=0, epoch=_HELD_OUT)
    return data.subset(order[count:].sort().values), data.subset(order[:count].sort().values)


def first_images(data: ImageData, count: int) -> ImageData:
    """So many of the images, drawn at random; smaller sets are parts of larger ones.

    Example:
        >>> len(first_images(load("mnist-small"), 100))
        100
    """
    if not 0 < count <= len(data):
        raise ValueError(f"images: expected 1 to {len(data)}, as many as there are to train on, got {count}")
    if count == len(data):
        return data
    return data.subset(permutation(len(data), seed=0, epoch=_FIRST)[:count].sort().values)
