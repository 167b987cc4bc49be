"""Two coordinates for every image: principal components at once, UMAP in a process of its own, both stored."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from kvicreg.explore.collection import Collection
from kvicreg.storage import replacing

__all__ = ["principal_layout", "scaled", "start_umap", "stored_umap", "umap_layout"]


def principal_layout(images: Collection) -> Tensor:
    """The two leading principal components of the features, (n, 2), from -1 to 1."""
    rows = images.files.in_memory() - images.space.mean
    some = rows[images.readable][:: max(1, len(rows) // 20_000)]
    _, _, directions = torch.pca_lowrank(some, q=min(6, *some.shape), niter=4)
    points = (rows @ directions[:, :2]) * images.readable[:, None]
    return scaled(torch.nn.functional.pad(points, (0, 2 - points.shape[1])))


def scaled(points: Tensor) -> Tensor:
    """Points in the middle of the square from -1 to 1; the farthest 0.1 % are drawn to its border."""
    low, high = torch.quantile(points[:: max(1, len(points) // 100_000)], torch.tensor([0.001, 0.999]), dim=0)
    extent = (high - low).max().clamp_min(1e-6)
    return ((points - (low + high) / 2) / extent * 1.9).clamp(-1, 1)


def umap_layout(points: Tensor, indices: Tensor, cosines: Tensor, *, seed: int = 0) -> Tensor:
    """UMAP of a graph of neighbours (n, k) by cosine, from `points` (n, 2) on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba and umap talk of threads given up for the seed's sake
        try:
            import umap
        except ImportError as error:
            raise ImportError("the map by UMAP needs umap-learn: pip install 'kvicreg[explore]'") from error
        count, k = indices.shape
        nearest = torch.cat((torch.arange(count)[:, None], indices), 1).int().numpy()
        distances = torch.cat((torch.zeros(count, 1), (1 - cosines).clamp_min(0)), 1).numpy()
        start = (10 * points + 1e-3 * torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))).numpy()
        model = umap.UMAP(
            n_neighbors=k + 1,
            init=start,
            random_state=seed,
            n_jobs=1,
            precomputed_knn=(nearest, distances),
            min_dist=0.1,
        )
        return scaled(torch.from_numpy(model.fit_transform(np.zeros((count, 2), dtype=np.float32))).float())


def stored_umap(folder: Path) -> Tensor | None:
    """The layout that `start_umap` has left, if it has finished."""
    path = folder / "umap.npy"
    return torch.from_numpy(np.load(path, allow_pickle=False)) if path.is_file() else None


def start_umap(images: Collection) -> subprocess.Popen[bytes]:
    """Begin to compute the UMAP of a collection, whose neighbours must be stored, in another process."""
    np.save(images.folder / "principal.npy", principal_layout(images).numpy())
    return subprocess.Popen(
        [sys.executable, "-m", "kvicreg.explore.layout", images.folder],
        stdout=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )


def main(folder: Path) -> None:
    """Compute and store the UMAP of the collection in a folder, unless the process that wants it ends before."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with np.load(folder / "neighbours.npz", allow_pickle=False) as arrays:
        indices, cosines = torch.from_numpy(arrays["indices"]), torch.from_numpy(arrays["cosines"])
    points = umap_layout(torch.from_numpy(np.load(folder / "principal.npy", allow_pickle=False)), indices, cosines)
    with replacing(folder / "umap.npy") as temporary, open(temporary, "wb") as file:
        np.save(file, points.numpy())


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
