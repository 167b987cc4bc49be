"""What the features themselves tell, without labels: how many directions they use, and if they collapsed.

With lambda the eigenvalues of the features' covariance, s the singular values of the uncentred features, and
p = lambda / sum(lambda), p' = s / sum(s):

    effective rank  exp(-sum p log p), at most min(n - 1, q)
    RankMe          exp(-sum p' log p')
    alpha           minus the slope of log lambda_i against log i (alpha-ReQ; near 1 is a healthy decay)
    alignment       mean |f(x) - f(x')|^2 over two views x, x' of an image, features on the unit sphere
    uniformity      log mean exp(-2 |f(x) - f(y)|^2) over pairs of images; at best about -4, collapsed 0
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvicreg.measures.spectrum import effective_rank, spectrum


@dataclass(frozen=True)
class Diagnostics:
    """Numbers that describe features (n, q); see the module for the formulae."""

    images: int
    dimension: int
    effective_rank: float
    effective_rank_bound: int
    rankme: float
    alpha: float
    uniformity: float
    alignment: float | None  # None without views
    scale: float  # root mean square distance of a feature vector from the mean
    dead_dimensions: int  # features that do not vary
    top_share: float  # share of the variance in the first direction
    class_variance_share: float | None  # share of the variance that lies between classes; None without labels
    verdict: str


def diagnose(
    features: Tensor,
    labels: Tensor | None = None,
    views: tuple[Tensor, Tensor] | None = None,
    *,
    seed: int = 0,
) -> Diagnostics:
    """Describe features (n, q); `views`, features of two views of the same images, add alignment."""
    if features.ndim != 2 or len(features) < 3:
        raise ValueError(f"features must be (n, q) with n of 3 or more, got {tuple(features.shape)}")
    x = features.double().cpu()
    eigenvalues = spectrum(x)
    bound = min(len(x) - 1, x.shape[1])
    rank = effective_rank(eigenvalues)
    std = x.std(0)
    dead = int((std <= 1e-6 * std.max().clamp_min(1e-30)).sum())
    total = float(eigenvalues.sum())
    top_share = float(eigenvalues[0]) / total if total > 0 else 1.0
    scale = total**0.5
    size = float(x.norm(dim=1).mean())
    return Diagnostics(
        images=len(x),
        dimension=x.shape[1],
        effective_rank=rank,
        effective_rank_bound=bound,
        rankme=rankme(x),
        alpha=alpha_req(eigenvalues),
        uniformity=uniformity(x, seed=seed),
        alignment=None if views is None else alignment(*views),
        scale=scale,
        dead_dimensions=dead,
        top_share=top_share,
        class_variance_share=None if labels is None else class_variance_share(x, labels),
        verdict=collapse_verdict(rank, bound, scale / max(size, 1e-30), top_share),
    )


def rankme(features: Tensor) -> float:
    """exp of the entropy of the shares of the singular values of the uncentred features."""
    return effective_rank(torch.linalg.svdvals(features.double()))


def alpha_req(eigenvalues: Tensor, first: int = 3, last: int = 100) -> float:
    """Exponent of the power law lambda_i ~ i^-alpha, by least squares on indices first..last (1-based)."""
    values = eigenvalues[: min(last, len(eigenvalues))]
    index = torch.arange(1, len(values) + 1, dtype=torch.float64)
    usable = (values > 1e-12 * eigenvalues[0]) & (index >= min(first, len(values) - 1))
    x, y = index[usable].log(), values[usable].double().log()
    if len(x) < 2:
        return float("inf")  # one direction holds everything
    x = x - x.mean()
    return float(-(x * y).sum() / x.square().sum())


def alignment(one: Tensor, two: Tensor) -> float:
    """Mean squared distance of the unit features (n, q) of two views; 0 when they coincide."""
    if one.shape != two.shape:
        raise ValueError(f"views must be features of the same images, got {tuple(one.shape)}, {tuple(two.shape)}")
    a, b = (torch.nn.functional.normalize(v.double(), dim=1) for v in (one, two))
    return float((a - b).square().sum(1).mean())


def uniformity(features: Tensor, *, seed: int = 0, cap: int = 2000) -> float:
    """log of the mean Gaussian potential over pairs of (at most `cap`) images on the unit sphere."""
    rows = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))[:cap]
    x = torch.nn.functional.normalize(features[rows].double(), dim=1)
    return float(torch.pdist(x).square().mul(-2).exp().mean().log())


def class_variance_share(features: Tensor, labels: Tensor) -> float:
    """Between-class share of the total variance: 0 when class means coincide, 1 when classes are points."""
    x = features.double()
    centre, between = x.mean(0), 0.0
    for label in torch.unique(labels):
        members = x[labels == label]
        between += len(members) * float((members.mean(0) - centre).square().sum())
    total = float((x - centre).square().sum())
    return between / total if total > 0 else 0.0


def collapse_verdict(rank: float, bound: int, relative_scale: float, top_share: float) -> str:
    """Collapse in words. `relative_scale`: distance from the mean relative to the length of a feature vector."""
    of = f"effective rank {rank:.1f} of {bound}"
    if relative_scale < 1e-3:
        return f"collapsed to a point: all images get nearly the same features ({of})"
    if rank < 2:
        return f"collapsed to a line: {top_share:.0%} of the variance lies in one direction ({of})"
    if rank < 0.05 * bound and rank < 10:
        return f"partly collapsed: they use few directions ({of})"
    if rank < 0.1 * bound:
        return f"not collapsed, though they use few of their directions ({of})"
    return f"not collapsed ({of})"
