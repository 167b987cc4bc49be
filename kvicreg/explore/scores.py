"""Which images lie apart from all others, and which few stand for all."""

from __future__ import annotations

import torch
from torch import Tensor

from kvicreg.explore.collection import Collection

__all__ = ["check_keep", "coreset", "outlier_scores"]

OUTLIER_NEIGHBOURS = 10


def outlier_scores(images: Collection) -> Tensor:
    """``1 - `` the mean cosine of an image with its 10 nearest others, (n,); not a number where it can't be read.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> outlier_scores(images).shape
        torch.Size([100])
    """
    scores = 1 - images.neighbours[1][:, :OUTLIER_NEIGHBOURS].mean(1)
    return torch.where(images.readable, scores, torch.nan)


def coreset(images: Collection, keep: int) -> Tensor:
    """Indices (keep,) of a diverse subset, in the order in which they were taken: the first few are one too.

    Farthest points first: the image nearest to the mean, then always the one that is least like all those taken. This
    is within a factor of two of the best cover by `keep` images, and takes outliers early.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> coreset(images, keep=5).shape
        torch.Size([5])
    """
    rows = images.readable.nonzero()[:, 0]
    check_keep(keep, len(rows))
    unit = images.unit[rows]
    nearest = torch.full((len(rows),), -torch.inf)
    chosen = [int((unit @ unit.mean(0)).argmax())]
    for number in range(1, keep):
        torch.maximum(nearest, unit @ unit[chosen[-1]], out=nearest)
        nearest[chosen[-1]] = torch.inf
        chosen.append(int(nearest.argmin()))
        images.report("coreset", number + 1, keep)
    return rows[torch.tensor(chosen)]


def check_keep(keep: int, count: int) -> None:
    """Refuse a subset that is empty, or larger than the number of readable images."""
    if not 1 <= keep <= count:
        raise ValueError(f"keep must be from 1 to {count}, the number of readable images, got {keep}")
