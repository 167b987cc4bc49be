"""Near duplicates: pairs, groups, and leaks between two collections."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kvicreg.explore.collection import Collection
from kvicreg.explore.index import Index

__all__ = ["Leak", "check_threshold", "duplicate_groups", "duplicate_pairs", "group_pairs", "leaks"]

THRESHOLD = 0.75


@dataclass(frozen=True)
class Leak:
    """An image of one collection that another has almost alike."""

    index: int
    other: int
    similarity: float


def duplicate_pairs(
    images: Collection, threshold: float = THRESHOLD, *, mirrored: bool = True
) -> tuple[Tensor, Tensor]:
    """Pairs (m, 2) of images with at least this cosine, most alike first, and their cosines (m,).

    Only the nearest 15 images of each are looked at: of many copies of one image the pairs still make one group.

    Args:
        mirrored: an image that is like the mirror image of another counts too; all are embedded once more for this.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> pairs, cosines = duplicate_pairs(images, 0.9)
        >>> len(pairs) == len(cosines)
        True
    """
    check_threshold(threshold)
    rows = images.sharp(images.files.in_memory())
    parts = [_above(images.neighbours[0], rows, rows, threshold)]
    if mirrored:
        parts.append(_above(images.mirrored_neighbours[0], images.sharp(images.mirrored.in_memory()), rows, threshold))
    ends, values = (torch.cat(part) for part in zip(*parts, strict=True))
    readable = images.readable[ends].all(1) & (ends[:, 0] != ends[:, 1])
    pairs, where = torch.unique(ends[readable], dim=0, return_inverse=True)
    best = torch.full((len(pairs),), -1.0).scatter_reduce_(0, where, values[readable], "amax")
    order = best.argsort(descending=True, stable=True)
    return pairs[order], best[order]


def _above(neighbours: Tensor, queries: Tensor, rows: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Pairs (m, 2), the smaller number first, and their cosines, of each query with its neighbours (n, k)."""
    parts = zip(queries.split(4096), neighbours.split(4096), strict=True)
    cosines = torch.cat([torch.einsum("nq,nkq->nk", query, rows[near]) for query, near in parts])
    ends, places = (cosines >= threshold).nonzero(as_tuple=True)
    return torch.stack((ends, neighbours[ends, places]), 1).sort(1).values, cosines[ends, places]


def duplicate_groups(images: Collection, threshold: float = THRESHOLD, *, mirrored: bool = True) -> list[list[int]]:
    """Images that are connected by pairs with at least this cosine, the groups with the most alike pair first.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> isinstance(duplicate_groups(images, 0.99), list)
        True
    """
    pairs, _ = duplicate_pairs(images, threshold, mirrored=mirrored)
    return group_pairs(pairs, len(images))


def group_pairs(pairs: Tensor, count: int) -> list[list[int]]:
    """The connected groups that pairs (m, 2) make among `count` images, in the order of their first pairs."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    if len(pairs) == 0:
        return []
    rows, columns = pairs.numpy().T
    edges = coo_matrix((np.ones(len(rows), dtype=np.uint8), (rows, columns)), shape=(count, count))
    _, component = connected_components(edges, directed=False)
    groups: dict[int, set[int]] = {}
    for one, other in zip(rows.tolist(), columns.tolist(), strict=True):
        groups.setdefault(int(component[one]), set()).update((one, other))
    return [sorted(group) for group in groups.values()]


def leaks(images: Collection, others: Collection, threshold: float = THRESHOLD) -> list[Leak]:
    """Each image that has one among the others with at least this cosine, with the most alike; most alike first.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> len(leaks(images, images, 0.99)) > 0
        True
    """
    check_threshold(threshold)
    if images.unit.shape[1] != others.unit.shape[1]:
        raise ValueError("others: expected images embedded by the same encoder")
    index = Index(images.sharp(others.files.in_memory()) * others.readable[:, None])  # both in one space
    best, cosines = index.search(images.sharp(images.files.in_memory()) * images.readable[:, None], 1)
    rows = (cosines[:, 0] >= threshold).nonzero()[:, 0].tolist()
    pairs = [Leak(row, int(best[row, 0]), float(cosines[row, 0])) for row in rows]
    return sorted(pairs, key=lambda leak: -leak.similarity)


def check_threshold(threshold: float) -> None:
    """Raise unless it is a cosine."""
    if not -1 <= threshold <= 1:
        raise ValueError(f"threshold must be a cosine from -1 to 1, got {threshold}")
