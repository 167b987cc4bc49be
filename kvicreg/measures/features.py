"""Features of a data set by an encoder, computed once and cached on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kvicreg.data import ImageData, in_order
from kvicreg.data.given import given_source
from kvicreg.data.options import DataOptions
from kvicreg.storage import write_atomically

__all__ = [
    "FeatureCache",
    "choose_device",
    "dtype_of",
    "evaluating",
    "extract",
    "fingerprint",
    "recorded_source",
    "stream_features",
]

Progress = Callable[[int, int], None]  # (images done, images in all)
Alter = Callable[[Tensor, Tensor], Tensor]  # (uint8 images, their indices) -> uint8 images


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; every submodule's own mode is put back afterwards."""
    modes = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for m, training in modes:
            m.training = training


def dtype_of(module: nn.Module) -> torch.dtype:
    """The type of a module's weights."""
    return next((p.dtype for p in module.parameters()), torch.float32)


def choose_device(name: str) -> torch.device:
    """The device of that name; auto takes a GPU when there is one."""
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)


def stream_features(
    encoder: nn.Module,
    data: ImageData,
    *,
    preprocess: Callable[[Tensor], Tensor] | None = None,
    alter: Alter | None = None,
    batch_size: int = 256,
    workers: int = 0,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Features (b, q), float32 on the CPU, and the indices (b,) of their images, batch by batch in order.

    The encoder runs where its weights are, in evaluation mode, and is left as it was. The index is another one where a
    file could not be read: that of the image put in its place.

    Args:
        encoder: any module that maps its input to (b, q).
        preprocess: uint8 images (b, c, h, w) to the encoder's input; unless given, the encoder's own.
        alter: changes the uint8 images first, given their indices (robustness).
        workers: processes that decode files.
    """
    preprocess = preprocess or getattr(encoder, "preprocess", None)
    if preprocess is None:
        raise ValueError("the encoder has no preprocess: give preprocess=, uint8 images -> its input")
    if len(data) == 0:
        raise ValueError(f"{data.name} ({data.split}) has no images")
    device = next((p.device for p in encoder.parameters()), torch.device("cpu"))
    for images, samples, _ in in_order(data, batch_size, workers=workers):
        with evaluating(encoder):  # not around the loop: the caller's own work between batches keeps its modes
            images = images.to(device, non_blocking=True)
            inputs = preprocess(images if alter is None else alter(images, samples))
            if inputs.ndim == 4:  # convolutions run about twice as fast on a CPU with channels last
                # a clone, because `contiguous` leaves grey images, of which both layouts are true, as they are
                inputs = inputs.clone(memory_format=torch.channels_last)
            features = encoder(inputs).flatten(1).float().cpu()
        yield features, samples


def extract(encoder: nn.Module, data: ImageData, *, progress: Progress | None = None, **options: Any) -> Tensor:
    """Features (n, q), float32 on the CPU, of all images in order; `options` are those of `stream_features`.

    Example:
        >>> from kvicreg.data import ArrayData
        >>> data = ArrayData(torch.zeros(10, 1, 8, 8, dtype=torch.uint8))
        >>> extract(nn.Flatten(), data, preprocess=lambda images: images / 255).shape
        torch.Size([10, 64])
    """
    rows: list[Tensor] = []
    for features, _ in stream_features(encoder, data, **options):
        rows.append(features)
        if progress is not None:
            progress(sum(map(len, rows)), len(data))
    return torch.cat(rows)


def fingerprint(data: ImageData) -> str:
    """A short hash of what the data are: name, split, sizes, labels, and 32 images evenly spaced among them."""
    digest = hashlib.sha256(f"{data.name}|{data.split}|{len(data)}|{tuple(data.shape)}".encode())
    if data.labels is not None:
        digest.update(data.labels.cpu().numpy().tobytes())
    rows = torch.linspace(0, len(data) - 1, min(32, len(data))).long()
    digest.update(data.fetch(rows).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def is_loaded_by(options: DataOptions, data: ImageData) -> bool:
    """Whether these settings load these very images, in this or another size."""
    elsewhere: dict[str, Any] = {"root": None, "image_size": None, "channels": None, "workers": 0}
    elsewhere |= {"cache_mb": 0, "cache_folder": None}
    return data.loaded_by is not None and replace(data.loaded_by, **elsewhere) == replace(options, **elsewhere)


def recorded_source(data: ImageData, options: DataOptions) -> str:
    """What a config says of the images: the source that the settings load them from, or that they are from Python."""
    return options.source if is_loaded_by(options, data) else given_source(data, fingerprint(data))


class FeatureCache:
    """Arrays in a folder, one file per key; a file is complete or absent, whatever interrupts the writing.

    Example:
        >>> cache = FeatureCache(Path("cache"))
        >>> features = cache.get(lambda: torch.ones(2, 3), "resnet18", "test")
        >>> cache.get(lambda: 1 / 0, "resnet18", "test").equal(features)  # read, not computed again
        True
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def path(self, *key: Any) -> Path:
        return self.folder / f"{hashlib.sha256('|'.join(map(str, key)).encode()).hexdigest()[:24]}.npy"

    def get(self, compute: Callable[[], Tensor], *key: Any) -> Tensor:
        """The stored features of `key`, or those of `compute()`, which are then stored."""
        path = self.path(*key)
        if path.exists():
            try:
                return torch.from_numpy(np.load(path, allow_pickle=False))
            except (ValueError, OSError, EOFError):
                path.unlink()  # damaged from outside: compute it again
        features = compute()
        self.folder.mkdir(parents=True, exist_ok=True)
        file = BytesIO()
        np.save(file, features.numpy(), allow_pickle=False)
        write_atomically(path, file.getvalue())
        return features
