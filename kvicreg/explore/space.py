"""Where images are compared: features with their mean subtracted and their variances made alike, of unit length."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

__all__ = ["VERSION", "Space"]

VERSION = 1
"""Raise it with any change below that moves a cosine: what was computed in the space is then computed anew."""
FLOOR = 0.01


class Space:
    """``x -> V (L + r mean(L))^(-power / 2) V^T (x - mean)``, scaled to unit length, with covariance ``V L V^T``.

    Without it a few directions in which all images differ decide every cosine. The ridge r is the number of features
    over that of images, and at least 0.01: of few images the small variances are not known.

    Args:
        features: (n, q), those that the mean and the variances are of.
        power: 1 makes all variances alike, which tells copies from images that are merely alike; 0.5 goes half the
            way, which is better for what images show.

    Example:
        >>> Space(torch.tensor([[2.0, 0.1], [-2.0, 0.1], [2.0, -0.1], [-2.0, -0.1]]), 1.0)(torch.tensor([[1.0, 0.0]]))
        tensor([[1., 0.]])
    """

    def __init__(self, features: Tensor, power: float = 0.5) -> None:
        count, width = features.shape
        self.mean = features.mean(0)
        centred = features - self.mean
        variances, directions = torch.linalg.eigh((centred.T @ centred).double() / count)
        ridge = max(FLOOR, width / count) * variances.mean()
        scale = (variances.clamp_min(0) + ridge).clamp_min(1e-12) ** (-power / 2)
        self.matrix = ((directions * scale) @ directions.T).float()

    def __call__(self, features: Tensor) -> Tensor:
        """Features (m, q) in this space; cosines of rows are their products."""
        return normalize((features - self.mean) @ self.matrix, dim=1)
