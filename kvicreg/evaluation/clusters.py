"""Do the classes appear without labels? k-means on the features, compared with the true classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kvicreg.evaluation.intervals import Interval


class ClusterResult(NamedTuple):
    """Normalised mutual information and adjusted Rand index of clusters and classes; both 1 at best."""

    nmi: Interval
    ari: Interval
    clusters: int


def clustering(x: Tensor, labels: Tensor, *, seed: int = 0) -> ClusterResult:
    """k-means on L2-normalised features (n, q), as many clusters as classes, best of four starts.

    The 95 % intervals are over images, by the jackknife; k-means itself is run once.

    Example:
        >>> clustering(torch.eye(4).repeat(10, 1), torch.arange(40) % 4).nmi.value
        1.0
    """
    try:
        from sklearn.cluster import KMeans
        from sklearn.metrics.cluster import contingency_matrix
    except ImportError as error:
        raise ImportError("clustering needs scikit-learn: pip install 'kvicreg[eval]'") from error

    if x.ndim != 2 or labels.shape != (len(x),):
        raise ValueError(f"x must be (n, q) with n labels, got {tuple(x.shape)} and {tuple(labels.shape)}")
    classes = len(torch.unique(labels))
    rows = torch.nn.functional.normalize(x.float(), dim=1).cpu().numpy()
    clusters = KMeans(classes, n_init=4, random_state=seed).fit_predict(rows)
    table = contingency_matrix(labels.cpu().numpy(), clusters)
    nmi, ari = (jackknife(table.astype(np.float64), score) for score in (mutual_information, adjusted_rand))
    return ClusterResult(nmi, ari, classes)


def jackknife(table: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> Interval:
    """A score of counts (classes, clusters), with the interval from leaving out each image in turn.

    A bootstrap would draw images twice, which always lie in one cluster and one class, and so raise both scores.
    Images of one class and cluster are interchangeable: one of each is left out, and counts as often as there are.
    """
    value, images, cells = float(score(table[None])[0]), table.sum(), np.argwhere(table > 0)
    without = np.repeat(table[None], len(cells), 0)
    without[np.arange(len(cells)), *cells.T] -= 1
    scores, counts = score(without), table[table > 0]
    variance = (images - 1) / images * np.dot(counts, (scores - np.dot(counts, scores) / images) ** 2)
    return Interval(value, value - 1.96 * variance**0.5, min(1.0, value + 1.96 * variance**0.5))


def mutual_information(tables: np.ndarray) -> np.ndarray:
    """Mutual information (r,) over the mean of both entropies, of counts (r, classes, clusters)."""

    def entropy(counts: np.ndarray) -> np.ndarray:
        p = counts.reshape(len(counts), -1) / counts.reshape(len(counts), -1).sum(1, keepdims=True)
        return -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(1)

    one, two = entropy(tables.sum(2)), entropy(tables.sum(1))
    mean = (one + two) / 2
    return np.where(mean > 0, (one + two - entropy(tables)) / np.where(mean > 0, mean, 1), 1.0)


def adjusted_rand(tables: np.ndarray) -> np.ndarray:
    """The share (r,) of pairs of images on which classes and clusters agree, 0 by chance; of counts like the above."""

    def pairs(counts: np.ndarray) -> np.ndarray:
        return np.asarray((counts * (counts - 1) / 2).reshape(len(counts), -1).sum(1))

    together, one, two = pairs(tables), pairs(tables.sum(2)), pairs(tables.sum(1))
    chance, most = one * two / np.maximum(pairs(tables.sum((1, 2))), 1), (one + two) / 2
    return np.where(most > chance, (together - chance) / np.where(most > chance, most - chance, 1), 1.0)
