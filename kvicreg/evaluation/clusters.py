"""Do the classes appear without labels? k-means on the features, compared with the true classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kvicreg.evaluation.intervals import Interval, bounds


class ClusterResult(NamedTuple):
    """Normalised mutual information and adjusted Rand index of clusters and classes; both 1 at best."""

    nmi: Interval
    ari: Interval
    clusters: int


def clustering(x: Tensor, labels: Tensor, *, seed: int = 0, resamples: int = 200) -> ClusterResult:
    """k-means on L2-normalised features (n, q), as many clusters as classes, best of four starts.

    The intervals resample images with their cluster and class; k-means itself is run once.

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
    # images of one class and cluster are interchangeable: how many of each are drawn is a multinomial
    drawn = np.random.default_rng(seed).multinomial(len(x), table.ravel() / len(x), size=resamples)
    tables = np.concatenate([table[None], drawn.reshape(resamples, *table.shape)]).astype(np.float64)
    nmi, ari = (Interval(float(v[0]), *bounds(v[1:])) for v in (mutual_information(tables), adjusted_rand(tables)))
    return ClusterResult(nmi, ari, classes)


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
