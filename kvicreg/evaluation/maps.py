"""A picture of the embedding: umap-learn's two coordinates for at most a few thousand test images, seeded."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kvicreg.data import ImageData
from kvicreg.data.transforms import visible
from kvicreg.evaluation.controls import RawPixels
from kvicreg.measures.features import extract
from kvicreg.measures.neighbours import nearest

CAP = 3000
NEIGHBOURS = 6


def map_subset(count: int, *, cap: int = CAP, seed: int = 0) -> Tensor:
    """Which of `count` images the map shows: all, or a random `cap`, ascending; the same for every run."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:cap].sort().values


def umap_points(features: Tensor, *, seed: int = 0, neighbours: int = 15) -> Tensor:
    """UMAP (cosine) of features (n, q): points (n, 2). The first call compiles for some seconds."""
    threads = torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba and umap talk of threads given up for the seed's sake
        try:
            import umap
        except ImportError as error:
            raise ImportError("the map needs umap-learn: pip install 'kvicreg[eval]', or --map-images 0") from error
        model = umap.UMAP(n_neighbors=min(neighbours, len(features) - 1), metric="cosine", random_state=seed, n_jobs=1)
        points = model.fit_transform(features.float().cpu().numpy())
    torch.set_num_threads(threads)  # numba changes it behind our back, and sums with it
    return torch.from_numpy(points).float()


def thumbnails(images: Tensor, side: int = 32) -> Tensor:
    """Images (n, c, h, w) shrunk to at most `side` pixels, as uint8 in grey or colour, channels last."""
    if images.shape[2] > side:
        images = torch.nn.functional.interpolate(images.float(), (side, side), mode="area")
    return visible(images).permute(0, 2, 3, 1).contiguous()


def map_arrays(features: Tensor, data: ImageData, *, seed: int = 0) -> dict[str, Any]:
    """What a map shows of images with these features: points, labels (-1: none), thumbnails, and neighbours.

    Neighbours are by the cosine of the features, and for contrast by that of the centred raw pixels.
    """
    pixels = extract(RawPixels(data.shape), data)
    labels = torch.full((len(data),), -1) if data.labels is None else data.labels
    return {
        "points": umap_points(features, seed=seed).numpy(),
        "labels": labels.numpy().astype(np.int32),
        "thumbnails": thumbnails(data.fetch(torch.arange(len(data)))).numpy(),
        "neighbours": nearest(features, NEIGHBOURS).numpy().astype(np.int32),
        "pixel_neighbours": nearest(pixels - pixels.mean(0), NEIGHBOURS).numpy().astype(np.int32),
    }
