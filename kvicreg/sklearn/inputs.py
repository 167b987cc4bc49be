"""What an estimator's X is, rows of a table or images: its encoder, its views, and what the encoder is given of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from kvicreg.data import ArrayData, Views, view_config
from kvicreg.models import SmallCNN

__all__ = ["TABLE_VIEWS", "ImageInputs", "Inputs", "TableInputs", "ViewsOf", "table_view"]

ViewsOf = str | Callable[[np.ndarray, np.random.Generator], Any]
Seed = tuple[int, int, int, int]
"""The seed of training, the epoch, the batch and the number of the view."""
TABLE_VIEWS = ("mask", "noise", "swap")


class Inputs(Protocol):
    """How arrays of one kind become what a network is trained on."""

    def update(self, X: np.ndarray) -> None:
        """Let what is measured of the data, such as its scale, take account of X."""

    def encoder(self, outputs: int, hidden: int) -> nn.Module:
        """An untrained network from what `plain` gives to features (b, outputs)."""

    def plain(self, X: np.ndarray) -> Tensor:
        """What the encoder is given of X."""

    def view(self, X: np.ndarray, rows: np.ndarray, seed: Seed) -> Tensor:
        """A random view of some rows of X."""


class TableInputs:
    """Rows of a table: columns at mean 0 and variance 1, the views made by `table_view` or by a function of yours."""

    def __init__(self, views: ViewsOf, strength: float) -> None:
        self.views, self.strength = views, strength
        self.names = () if callable(views) else tuple(views.split("+"))
        if set(self.names) - set(TABLE_VIEWS):
            raise ValueError(f"views must be a function or some of {', '.join(TABLE_VIEWS)} joined by +, got {views!r}")
        self.scaler = StandardScaler()

    def update(self, X: np.ndarray) -> None:
        self.scaler.partial_fit(X)

    def encoder(self, outputs: int, hidden: int) -> nn.Module:
        return TableEncoder(self.scaler.n_features_in_, hidden, outputs)

    def plain(self, X: np.ndarray) -> Tensor:
        return torch.from_numpy(self.scaler.transform(X))

    def view(self, X: np.ndarray, rows: np.ndarray, seed: Seed) -> Tensor:
        if callable(self.views):
            return self.plain(_made(self.views, X[rows], seed))
        x, rng = self.scaler.transform(X[rows]), np.random.default_rng(seed)
        for name in self.names:
            x = table_view(x, name, self.strength, rng)
        return torch.from_numpy(x)


def _made(views: Callable[[np.ndarray, np.random.Generator], Any], rows: np.ndarray, seed: Seed) -> np.ndarray:
    """What a function of the user's makes of some rows."""
    made = np.ascontiguousarray(views(rows, np.random.default_rng(seed)), dtype=rows.dtype)
    if made.shape != rows.shape:
        raise ValueError(f"views must return rows of shape {rows.shape}, got {made.shape}")
    return made


def table_view(x: np.ndarray, name: str, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Rows ``(b, p)`` of columns with mean 0 and variance 1, changed at random.

    "noise" adds normal noise of standard deviation `strength`. The others change each value with that chance: "mask"
    puts the column's mean in its place, "swap" the value that another row has there.
    """
    if name == "noise":
        return x + strength * rng.standard_normal(x.shape).astype(x.dtype)
    chosen = rng.random(x.shape) < strength
    others = np.zeros_like(x) if name == "mask" else rng.permuted(x, axis=0)
    return np.where(chosen, others, x)


class TableEncoder(nn.Module):
    """Rows (b, inputs) to features (b, outputs): a linear map plus a network with one hidden layer."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.network = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.linear(x) + self.network(x)
        return features


class ImageInputs:
    """Images (n, s, s), (n, s, s, c) or (n, c, s, s): the views of a preset, or made by a function of yours."""

    def __init__(self, views: ViewsOf, X: np.ndarray) -> None:
        self.views = views
        self.intensity = ArrayData(X).intensity or "minmax"
        self.transforms = Views.of(self._data(X), view_config("none" if callable(views) else views))

    def update(self, X: np.ndarray) -> None:
        """Nothing: the range of the values is that of the images that came first."""

    def _data(self, X: np.ndarray) -> ArrayData:
        data = ArrayData(X, intensity=self.intensity)
        return data.in_shape(max(16, data.shape[1]), None)  # the least that the encoder takes

    def encoder(self, outputs: int, hidden: int) -> nn.Module:
        network = SmallCNN(in_channels=len(self.transforms.mean), width=0.5)
        return nn.Sequential(network, nn.Linear(network.feature_dim, outputs))

    def plain(self, X: np.ndarray) -> Tensor:
        return self.transforms.plain(self._data(X).fetch(torch.arange(len(X))))

    def view(self, X: np.ndarray, rows: np.ndarray, seed: Seed) -> Tensor:
        if callable(self.views):
            return self.plain(_made(self.views, X[rows], seed))
        number, epoch, _, view = seed
        images = self._data(X[rows]).fetch(torch.arange(len(rows)))
        return self.transforms(images, torch.from_numpy(rows), seed=number, epoch=epoch, view=view)
