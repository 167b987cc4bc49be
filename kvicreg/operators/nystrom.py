"""Nystroem's approximation: every point by its kernel values with a few landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import AllPairs, SamePoints
from kvicreg.kernels.tensors import outside_transforms
from kvicreg.operators.approximation import Approximation, ApproximationOptions
from kvicreg.operators.eigenvalues import eigenvectors
from kvicreg.operators.shard import Shard
from kvicreg.options import option

__all__ = ["Nystrom"]

CANDIDATES_PER_LANDMARK = 8


class Nystrom(Approximation):
    """``k(x, y) ~ k(x, L) K_LL^+ k(L, y)`` with m landmarks L out of the batch, in O(b m p + b m^2).

    Works with every kernel. The landmarks are rows of all views together, shared by the views and by all processes.
    They carry no gradient and need none: where a landmark is a point of the batch the kernel is exact around it.
    Directions in which the landmarks repeat each other are left out.

    Args:
        landmarks: m; all points of all views when there are no more than that, which is exact.
        choice: "uniform"; "kmeans++" spreads them out, each new one drawn with probability proportional to its
            squared distance in feature space from those before; "leverage" draws in proportion to approximate ridge
            leverage scores. The last two choose among 8 m candidates drawn uniformly.
        seed: what the choice is a function of.

    Example:
        >>> from kvicreg import KernelVICRegLoss
        >>> criterion = KernelVICRegLoss("laplacian", approximation=Nystrom(landmarks=64))
        >>> criterion(torch.randn(1024, 32), torch.randn(1024, 32)).shape
        torch.Size([])
    """

    def __init__(
        self, landmarks: int = 256, choice: Literal["uniform", "kmeans++", "leverage"] = "uniform", seed: int = 0
    ) -> None:
        super().__init__()
        if landmarks < 1:
            raise ValueError(f"landmarks must be at least 1, got {landmarks}")
        if choice not in ("uniform", "kmeans++", "leverage"):
            raise ValueError(f'choice must be "uniform", "kmeans++" or "leverage", got {choice!r}')
        self.landmarks, self.choice, self.seed = landmarks, choice, seed

    def features(self, views: Sequence[Tensor] | Tensor, kernel: Kernel, shard: Shard) -> Tensor:
        z = views[0]
        with torch.no_grad():
            landmarks = self._choose(views, kernel, shard)
            # In float64, since what is small here is inverted. Landmarks that repeat each other make zeros of it:
            # what can't be told from zero in the precision of the embeddings is left out.
            precise = landmarks.double() if z.device.type != "mps" else landmarks.cpu().double()
            values, vectors = eigenvectors(kernel.evaluate(AllPairs(precise)))
            smallest = values[-1] * torch.finfo(z.dtype).eps
            whitening = (vectors * torch.where(values > smallest, values, torch.inf).rsqrt()).to(z)
        return torch.stack([kernel.evaluate(AllPairs(view, landmarks)) @ whitening for view in views])

    def _choose(self, views: Sequence[Tensor] | Tensor, kernel: Kernel, shard: Shard) -> Tensor:
        """The landmarks ``(m, p)``, alike in every process."""
        generator = torch.Generator().manual_seed(self.seed)
        points, device = len(views) * shard.total, views[0].device
        wanted = min(self.landmarks, points)
        pool = wanted if self.choice == "uniform" else min(CANDIDATES_PER_LANDMARK * wanted, points)
        # views side by side: point i is row i % total of view i // total
        with outside_transforms():
            chosen = torch.randperm(points, generator=generator)[:pool].sort().values.to(device)
        rows = shard.take(views, chosen % shard.total)
        candidates = rows[chosen // shard.total, torch.arange(pool, device=device)]
        if pool == wanted:
            return candidates
        if self.choice == "kmeans++":
            return candidates[_kmeans_seeds(candidates, kernel, wanted, generator)]
        with outside_transforms():
            noise = torch.empty(pool, dtype=torch.float64).exponential_(generator=generator).to(device)
        # the first to come, at rates that are the scores: a draw by them without replacement, made on the device
        times = noise / _leverage(candidates, kernel, wanted)
        return candidates[times.topk(wanted, largest=False).indices]

    def extra_repr(self) -> str:
        return f"landmarks={self.landmarks}, choice={self.choice!r}"


def _kmeans_seeds(points: Tensor, kernel: Kernel, count: int, generator: torch.Generator) -> Tensor:
    """Indices of `count` points by k-means++ seeding in feature space."""
    diagonal = kernel.evaluate(SamePoints(points))
    with outside_transforms():
        thresholds = torch.rand(count, generator=generator, dtype=torch.float64).to(points.device)
    chosen = [(thresholds[:1] * len(points)).long().clamp_max(len(points) - 1)]  # (1,): a scalar would be waited for
    nearest = torch.full_like(diagonal, torch.inf)
    for threshold in thresholds[1:].split(1):
        last = points[chosen[-1]]
        distance = diagonal + diagonal[chosen[-1]] - 2 * kernel.evaluate(AllPairs(points, last)).squeeze(-1)
        nearest = torch.minimum(nearest, distance.clamp_min(0))
        cumulative = nearest.double().cumsum(0)
        chosen.append(torch.searchsorted(cumulative, threshold * cumulative[-1]).clamp_max(len(points) - 1))
    return torch.cat(chosen)


def _leverage(points: Tensor, kernel: Kernel, count: int) -> Tensor:
    """Approximate ridge leverage scores: what of each point the first `count` of them leave unexplained."""
    pilot = points[:count]
    gram = kernel.evaluate(AllPairs(pilot)).double()
    ridge = gram.diagonal().mean() * 1e-2
    cross = kernel.evaluate(AllPairs(points, pilot)).double()
    factor = torch.linalg.cholesky(gram + ridge * torch.eye(count, dtype=gram.dtype, device=gram.device))
    explained = torch.linalg.solve_triangular(factor, cross.mT, upper=False).square().sum(0)
    unexplained = kernel.evaluate(SamePoints(points)).double() - explained
    scores: Tensor = unexplained.clamp_min(0) + ridge
    return scores


@dataclass(frozen=True, kw_only=True)
class NystromOptions(ApproximationOptions, name="nystrom"):
    """Settings of `Nystrom`."""

    components: int = option(128, "Landmarks.", above=0)

    def build(self, seed: int) -> Nystrom:
        return Nystrom(landmarks=self.components, seed=seed)
