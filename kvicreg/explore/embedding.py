"""Features of a source, embedded once: streamed into files on disk, and continued where a stop has left them."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kvicreg.data import ImageData
from kvicreg.data.transforms import visible
from kvicreg.measures.features import fingerprint, stream_features
from kvicreg.models import PretrainedEncoder
from kvicreg.storage import working_on, write_atomically

__all__ = ["PIXEL_SIDE", "Embedding", "embed_images", "source_key"]

PIXEL_SIDE = 16
"""Side to which an image is shrunk to be compared by its pixels."""
SAVED_EVERY = 5.0
"""Seconds of work that a stop may lose."""

Progress = Callable[[str, int, int], None]  # what, how many are done, how many there are


class Embedding:
    """The files of one source by one encoder, in a folder.

    Attributes:
        features: float32 (n, q).
        pixels: uint8 (n, 3, 16, 16).
        readable: whether an image could be read, (n,); the rows of the others mean nothing.
    """

    def __init__(self, folder: Path, count: int, width: int) -> None:
        self.folder, self.count = folder, count
        folder.mkdir(parents=True, exist_ok=True)
        self.features = self._array("features", "<f4", (count, width))
        self.pixels = self._array("pixels", "u1", (count, 3, PIXEL_SIDE, PIXEL_SIDE))
        self.readable = self._array("readable", "u1", (count,))

    def _array(self, name: str, kind: str, shape: tuple[int, ...]) -> np.memmap:
        path = self.folder / f"{name}.npy"
        if path.is_file():
            try:
                array = np.lib.format.open_memmap(path, mode="r+")
                if array.shape == shape:
                    return array
            except (ValueError, OSError):
                pass  # damaged from outside, or cut short while it was made
            self._progress.unlink(missing_ok=True)
        return np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape)

    @property
    def _progress(self) -> Path:
        return self.folder / "progress.json"

    @property
    def done(self) -> int:
        """How many images are embedded, from the first on."""
        try:
            return min(self.count, int(json.loads(self._progress.read_text())["done"]))
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def in_memory(self) -> Tensor:
        """The features (n, q) as a tensor that does not hang on the file."""
        return torch.from_numpy(np.array(self.features))

    def save(self, done: int) -> None:
        """Note that the first `done` rows are whole."""
        for array in (self.features, self.pixels, self.readable):
            array.flush()
        write_atomically(self._progress, json.dumps({"done": done, "count": self.count}).encode())


def embed_images(
    encoder: PretrainedEncoder,
    data: ImageData,
    folder: Path,
    *,
    mirror: bool = False,
    batch_size: int = 256,
    workers: int = 0,
    progress: Progress | None = None,
) -> Embedding:
    """The features and small pixels of all images, or of their mirror images.

    Those that are already in the folder are not computed again.
    """
    files = Embedding(folder, len(data), encoder.feature_dim)
    if files.done == len(data):
        return files
    with working_on(folder, "embedding"):
        start = files.done
        rest = data if start == 0 else data.subset(torch.arange(start, len(data)))
        seen: list[Tensor] = []

        def look(images: Tensor, samples: Tensor) -> Tensor:
            images = images.flip(3) if mirror else images
            seen.append(small_pixels(images))
            return images

        saved = time.monotonic()
        for features, samples in stream_features(encoder, rest, alter=look, batch_size=batch_size, workers=workers):
            rows = slice(start, start + len(samples))
            expected = torch.arange(len(samples)) + (start - (len(data) - len(rest)))
            files.features[rows], files.pixels[rows] = features.numpy(), seen.pop().cpu().numpy()
            files.readable[rows] = (samples == expected).numpy()
            start = rows.stop
            if time.monotonic() - saved > SAVED_EVERY or start == len(data):
                files.save(start)
                saved = time.monotonic()
            if progress is not None:
                progress("mirrored embedding" if mirror else "embedding", start, len(data))
    return files


def small_pixels(images: Tensor) -> Tensor:
    """Images (b, c, h, w) shrunk to (b, 3, 16, 16), uint8."""
    small = F.interpolate(visible(images).float(), (PIXEL_SIDE, PIXEL_SIDE), mode="bilinear", antialias=True)
    return small.round().clamp_(0, 255).to(torch.uint8).expand(-1, 3, -1, -1)


def source_key(data: ImageData) -> str:
    """A hash that changes with the images: of files their names, sizes and times, of arrays what they hold."""
    if data.paths is None:
        return fingerprint(data)
    digest = hashlib.sha256(repr((data.split, tuple(data.shape), len(data))).encode())
    containers: dict[str, str] = {}
    for path in map(os.fspath, data.paths):
        digest.update(f"{path}|{_stamp(path, containers)}".encode())
    return digest.hexdigest()[:16]


def _stamp(path: str, containers: dict[str, str]) -> str:
    """Size and time of a file, or of the archive or table that a name leads into."""
    try:
        status = os.stat(path)
        return f"{status.st_size}|{status.st_mtime_ns}"
    except OSError:
        parent = os.path.dirname(path)
        if parent in ("", path):
            return "absent"
        if parent not in containers:
            containers[parent] = "absent" if os.path.isdir(parent) else _stamp(parent, containers)
        return containers[parent]
