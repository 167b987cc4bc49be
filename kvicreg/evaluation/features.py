"""Features of a data set by an encoder, computed once and kept beside the run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn


class Images(Protocol):
    """What evaluation asks of data: `kvicreg.data.ImageData` has it."""

    name: str
    split: str
    labels: Tensor | None
    shape: tuple[int, int, int]

    def __len__(self) -> int: ...
    def fetch(self, indices: Tensor) -> Tensor: ...


Progress = Callable[[int, int], None]  # (images done, images in all)


@torch.no_grad()
def extract(
    encoder: nn.Module,
    data: Images,
    *,
    preprocess: Callable[[Tensor], Tensor] | None = None,
    alter: Callable[[Tensor, Tensor], Tensor] | None = None,
    batch_size: int = 512,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """Features (n, q), float32 on the CPU, of all images in order; the encoder is in eval mode meanwhile.

    `preprocess` turns uint8 images (b, c, h, w) into the encoder's input; unless given, the encoder's own.
    `alter(images, indices)`, if given, changes the uint8 images first. `device`: the encoder's, unless given.
    """
    preprocess = preprocess or getattr(encoder, "preprocess", None)
    if preprocess is None:
        raise ValueError("the encoder has no preprocess: give preprocess=, uint8 images -> its input")
    if device is None:
        device = next((p.device for p in encoder.parameters()), torch.device("cpu"))
    was_training = encoder.training
    encoder.eval().to(device)
    features: Tensor | None = None
    try:
        for indices in torch.arange(len(data)).split(batch_size):
            images = data.fetch(indices)
            if alter is not None:
                images = alter(images, indices)
            output = encoder(preprocess(images.to(device, non_blocking=True))).flatten(1).float()
            if features is None:
                features = torch.empty(len(data), output.shape[1])
            features[indices] = output.cpu()
            if progress is not None:
                progress(int(indices[-1]) + 1, len(data))
    finally:
        encoder.train(was_training)
    if features is None:
        raise ValueError(f"{data.name} ({data.split}) has no images")
    return features


def raw_pixels(data: Images, *, batch_size: int = 2048, max_features: int = 3072) -> Tensor:
    """The control that learns nothing: pixels in [0, 1] as features (n, c*h*w), at most `max_features`."""
    channels, height, width = data.shape
    side = min(height, width, int((max_features / channels) ** 0.5))
    rows = []
    for indices in torch.arange(len(data)).split(batch_size):
        images = data.fetch(indices).float() / 255
        if side < min(height, width):
            images = torch.nn.functional.interpolate(images, size=(side, side), mode="area")
        rows.append(images.flatten(1))
    return torch.cat(rows)


def fingerprint(data: Images) -> str:
    """A short hash of what the data are: name, split, sizes, labels, and 32 images spread over them."""
    digest = hashlib.sha256(f"{data.name}|{data.split}|{len(data)}|{tuple(data.shape)}".encode())
    if data.labels is not None:
        digest.update(data.labels.cpu().numpy().tobytes())
    spread = torch.linspace(0, len(data) - 1, min(32, len(data))).long()
    digest.update(data.fetch(spread).contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


class FeatureCache:
    """Arrays in a folder, one file per key; a file is complete or absent, whatever interrupts the writing."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def path(self, *key: Any) -> Path:
        return self.folder / f"{hashlib.sha256('|'.join(map(str, key)).encode()).hexdigest()[:24]}.npy"

    def get(self, compute: Callable[[], Tensor], *key: Any) -> Tensor:
        """The stored features of `key`, or those of `compute()`, stored."""
        path = self.path(*key)
        if path.exists():
            try:
                return torch.from_numpy(np.load(path, allow_pickle=False))
            except (ValueError, OSError, EOFError):
                path.unlink()  # damaged from outside: compute it again
        features = compute()
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}.part")
        with partial.open("wb") as file:
            np.save(file, features.numpy(), allow_pickle=False)
        os.replace(partial, path)
        return features
