"""What a kernel sees in a collection: its values between images, and the leading directions of its feature space."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from kvicreg import kernels
from kvicreg.explore.collection import Collection
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.pairs import AllPairs
from kvicreg.measures.features import evaluating
from kvicreg.models.projector import Projector
from kvicreg.operators import Nystrom
from kvicreg.operators.eigenvalues import eigenvectors
from kvicreg.operators.shard import Shard

__all__ = ["KernelView"]


class KernelView:
    """Kernel PCA of a collection: the covariance operator of its images in feature space, by Nystroem's approximation.

    Args:
        images: the collection.
        kernel: a kernel, or its name; the bandwidth is of the distances between images unless it is fixed.
        projector: maps features to the embeddings that the loss of training saw; without it features are taken.
        landmarks: of the approximation.
        components: how many directions.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> KernelView(images, "laplacian", components=2).components.shape
        torch.Size([100, 2])
    """

    def __init__(
        self,
        images: Collection,
        kernel: str | Kernel = "rbf",
        *,
        projector: Projector | None = None,
        landmarks: int = 512,
        components: int = 8,
    ) -> None:
        if components < 1:
            raise ValueError(f"components must be at least 1, got {components}")
        self.images, self.landmarks, self.count = images, landmarks, components
        features = images.files.in_memory()
        self.points = features if projector is None else _projected(features, projector)
        some = self.points[images.readable][:: max(1, len(features) // 2048)]
        self.kernel = kernels.get(kernel).resolve(some)

    def values(self, index: int, others: Tensor) -> Tensor:
        """``k(x, y)`` of an image with others (m,), over ``k(x, x)``."""
        point = self.points[[index]]
        return self.kernel.evaluate(AllPairs(point, self.points[others]))[0] / self.kernel.diagonal(point)

    @cached_property
    def _decomposed(self) -> tuple[Tensor, Tensor]:
        points = self.points[self.images.readable]
        shard = Shard.of(points, gather=False)
        features = Nystrom(self.landmarks).features([points], self.kernel, shard)[0]
        centred = (features - features.mean(0)).double()
        variances, directions = eigenvectors(centred.T @ centred / len(centred))
        count = min(self.count, len(variances))
        variances, directions = variances.flip(0), directions.flip(1)[:, :count]
        weights = torch.zeros(len(self.points), count)
        weights[self.images.readable] = (centred @ directions).float()
        return weights / variances[:count].clamp_min(1e-12).sqrt().float(), variances / variances.sum()

    @property
    def components(self) -> Tensor:
        """Weight of every image in the leading directions, (n, components), of unit variance."""
        return self._decomposed[0]

    @property
    def shares(self) -> Tensor:
        """Share of each leading direction in the total variance, (components,)."""
        return self._decomposed[1][: self.count]

    def gallery(self, component: int, count: int = 12) -> tuple[Tensor, Tensor]:
        """Indices of the images with the most positive and with the most negative weights in a direction."""
        if not 0 <= component < self.components.shape[1]:
            raise ValueError(f"component must be from 0 to {self.components.shape[1] - 1}, got {component}")
        order = self.components[:, component].argsort(descending=True)
        return order[:count], order.flip(0)[:count]


def _projected(features: Tensor, projector: Projector) -> Tensor:
    device = next(projector.parameters()).device
    with evaluating(projector):
        return torch.cat([projector(part.to(device)).float().cpu() for part in features.split(4096)])
