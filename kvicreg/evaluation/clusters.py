"""Do the classes appear without labels? k-means on the features, compared with the true classes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class ClusterResult(NamedTuple):
    """Normalised mutual information and adjusted Rand index of clusters and classes; both 1 at best."""

    nmi: float
    ari: float
    clusters: int


def clustering(x: Tensor, labels: Tensor, *, seed: int = 0) -> ClusterResult:
    """k-means on L2-normalised features (n, q), as many clusters as classes, best of four starts."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    if x.ndim != 2 or labels.shape != (len(x),):
        raise ValueError(f"x must be (n, q) with n labels, got {tuple(x.shape)} and {tuple(labels.shape)}")
    classes = len(torch.unique(labels))
    rows = torch.nn.functional.normalize(x.float(), dim=1).cpu().numpy()
    found = KMeans(classes, n_init=4, random_state=seed).fit_predict(rows)
    truth = labels.cpu().numpy()
    nmi, ari = normalized_mutual_info_score(truth, found), adjusted_rand_score(truth, found)
    return ClusterResult(float(nmi), float(ari), classes)
