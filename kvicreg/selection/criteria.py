"""Label-free criteria: numbers of features that are hoped to tell how well a probe with labels would do.

How well each does is measured, not assumed: see docs/selection.md. All are functions of features of the same images;
in `CRITERIA` each is turned so that higher should be better.

    rankme, effective_rank, alpha   the spectrum of the features: see `evaluation.diagnostics`
    rkhs_rank       effective rank of the features' covariance operator under RBF
    embedding_rank  the same of the embeddings under the candidate's own kernel
    alignment       minus the squared distance of two views on the unit sphere
    uniformity      minus the log of the mean Gaussian potential
    retrieval       share of the images whose other view is their nearest neighbour
    neighbours      overlap of the 10 nearest neighbours of an image by its one view and by its other
    clusters        agreement (NMI) of the clusters that k-means finds by the one view and by the other
    cka             centred kernel alignment (linear) of the two views
    lidar           effective rank of the scatter between images, measured in units of the scatter between views
    loss            minus the training loss
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from kvicreg.evaluation.diagnostics import alignment, alpha_req, rankme, uniformity
from kvicreg.measures.alignment import centred_alignment
from kvicreg.measures.neighbours import nearest
from kvicreg.measures.spectrum import effective_rank, spectrum
from kvicreg.operators import covariance_operator

__all__ = ["COMBINED", "CRITERIA", "combination", "consensus", "measure_views", "neighbours", "ranks", "study_criteria"]

NEIGHBOURS = 10
CLUSTERS = 20
CRITERIA = (
    "rankme", "effective_rank", "rkhs_rank", "embedding_rank", "alpha", "alignment", "uniformity",
    "alignment_uniformity", "retrieval", "neighbours", "clusters", "cka", "lidar", "loss", "consensus", "combination",
)  # fmt: skip
"""All criteria; the last two compare the candidates of a study with each other."""
COMBINED = ("rankme", "lidar", "retrieval", "neighbours", "clusters", "consensus")
"""What `combination` is the mean rank of: chosen before anything was measured, one or two of each kind."""


def measure_views(features: Tensor, views: Sequence[Tensor]) -> dict[str, float]:
    """Every criterion that is a function of features (n, q) and of those of two or more views (n, q) of the images."""
    one, two = views[0], views[1]
    eigenvalues = spectrum(features)
    align, uniform = alignment(one, two), uniformity(features)
    return {
        "rankme": rankme(features),
        "effective_rank": effective_rank(eigenvalues),
        "rkhs_rank": float(covariance_operator(features[:512].double(), "rbf").effective_rank()),
        "alpha": -abs(alpha_req(eigenvalues) - 1),
        "alignment": -align,
        "uniformity": -uniform,
        "alignment_uniformity": -align - uniform,
        "retrieval": retrieval(one, two),
        "neighbours": neighbour_overlap(neighbours(one), neighbours(two)),
        "clusters": cluster_agreement(one, two),
        "cka": centred_alignment(one, two),
        "lidar": lidar(torch.stack(list(views), dim=1)),
    }


def retrieval(one: Tensor, two: Tensor) -> float:
    """Share of images whose nearest neighbour among all second views, by cosine, is their own."""
    similarity = _centred(one) @ _centred(two).T
    return float((similarity.argmax(1) == torch.arange(len(one))).double().mean())


def neighbours(features: Tensor, k: int = NEIGHBOURS) -> Tensor:
    """Indices (n, k) of each image's nearest other images, by cosine of the centred features."""
    return nearest(_centred(features), k)


def neighbour_overlap(one: Tensor, two: Tensor) -> float:
    """Mean share of the neighbours (n, k) that two lists have in common."""
    common = (one.unsqueeze(2) == two.unsqueeze(1)).any(2)
    return float(common.double().mean())


def cluster_agreement(one: Tensor, two: Tensor, clusters: int = CLUSTERS) -> float:
    """Normalised mutual information of k-means on the first view with its centres' assignment of the second."""
    try:
        from sklearn.cluster import KMeans
        from sklearn.metrics import normalized_mutual_info_score
    except ImportError as error:
        raise ImportError("the clusters criterion needs scikit-learn: pip install 'kvicreg[eval]'") from error

    a, b = _centred(one).float().numpy(), _centred(two).float().numpy()
    model = KMeans(min(clusters, len(a)), n_init=2, random_state=0).fit(a)
    return float(normalized_mutual_info_score(model.labels_, model.predict(b)))


def lidar(views: Tensor, ridge: float = 1e-4) -> float:
    """Rank of what tells images apart beyond what tells their views apart, of features (n, v, q).

    The exponential of the entropy of the eigenvalues' shares of ``W^-1/2 B W^-1/2``, with B the covariance of the
    images' means and W the mean covariance of an image's views, plus `ridge` times its mean eigenvalue.
    """
    x = views.double()
    n, v, q = x.shape
    means = x.mean(1)
    between = means - means.mean(0)
    within = (x - means.unsqueeze(1)).reshape(n * v, q)
    w = within.T @ within / max(1, n * (v - 1))
    w = w + (ridge * w.diagonal().mean() + torch.finfo(x.dtype).tiny) * torch.eye(q, dtype=x.dtype)
    factor = torch.linalg.cholesky(w)
    whitened = torch.linalg.solve_triangular(factor, between.T, upper=False)  # (q, n)
    return effective_rank(spectrum(whitened.T))


def study_criteria(measured: Mapping[str, Mapping[str, Any]], by_name: Mapping[str, Tensor]) -> dict[str, Any]:
    """All criteria of every candidate of a study, those that compare candidates with each other included.

    Args:
        measured: what was measured of each candidate, after the same number of steps.
        by_name: the neighbours (n, k) of the same images under each candidate.
    """
    agreement = consensus(by_name)
    rows = {name: {**about["criteria"], "consensus": agreement[name]} for name, about in measured.items()}
    combined = combination(rows)
    return {name: {**row, "combination": combined[name]} for name, row in rows.items()}


def consensus(by_name: Mapping[str, Tensor]) -> dict[str, float]:
    """How much each candidate's neighbours (n, k) agree with those of the others: good candidates err differently."""
    names = list(by_name)
    agreement = dict.fromkeys(names, 0.0)
    for i, one in enumerate(names):
        for other in names[:i]:
            overlap = neighbour_overlap(by_name[one], by_name[other]) / max(1, len(names) - 1)
            agreement[one] += overlap
            agreement[other] += overlap
    return agreement


def combination(rows: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean over `COMBINED` of each candidate's rank among the candidates, 0 (worst) to 1 (best)."""
    names = list(rows)
    total = dict.fromkeys(names, 0.0)
    for criterion in COMBINED:
        for name, rank in zip(names, ranks([rows[name][criterion] for name in names]), strict=True):
            total[name] += rank / max(1, len(names) - 1) / len(COMBINED)
    return total


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 0 (the lowest) on; equal values share their mean rank, and nan is the lowest of all."""
    keys = [-float("inf") if value != value else value for value in values]
    return [sum(other < key for other in keys) + (keys.count(key) - 1) / 2 for key in keys]


def _centred(features: Tensor) -> Tensor:
    """Centred, at unit length: without centring, what all images share hides what tells them apart."""
    x = features.double()
    return normalize(x - x.mean(0), dim=1)
