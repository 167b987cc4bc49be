"""Do the classes appear without labels? k-means on the features, compared with the true classes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kvicreg.evaluation.intervals import Interval, bootstrap_statistic


class ClusterResult(NamedTuple):
    """Normalised mutual information and adjusted Rand index of clusters and classes; both 1 at best."""

    nmi: Interval
    ari: Interval
    clusters: int


def clustering(x: Tensor, labels: Tensor, *, seed: int = 0, resamples: int = 200) -> ClusterResult:
    """k-means on L2-normalised features (n, q), as many clusters as classes, best of four starts.

    The intervals resample images with their cluster and class; k-means itself is run once.
    """
    try:
        from sklearn.cluster import KMeans
        from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
    except ImportError as error:
        raise ImportError("clustering needs scikit-learn: pip install 'kvicreg[eval]'") from error

    if x.ndim != 2 or labels.shape != (len(x),):
        raise ValueError(f"x must be (n, q) with n labels, got {tuple(x.shape)} and {tuple(labels.shape)}")
    classes = len(torch.unique(labels))
    rows = torch.nn.functional.normalize(x.float(), dim=1).cpu().numpy()
    clusters = KMeans(classes, n_init=4, random_state=seed).fit_predict(rows)
    truth = labels.cpu().numpy()
    nmi, ari = (
        bootstrap_statistic(score, truth, clusters, resamples=resamples, seed=seed)
        for score in (normalized_mutual_info_score, adjusted_rand_score)
    )
    return ClusterResult(nmi, ari, classes)
