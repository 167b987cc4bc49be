"""Features of a data set by an encoder, computed once and kept beside the run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kvicreg.data import ImageData, in_order
from kvicreg.storage import write_atomically

Progress = Callable[[int, int], None]  # (images done, images in all)
Alter = Callable[[Tensor, Tensor], Tensor]  # (uint8 images, their indices) -> uint8 images


@torch.no_grad()
def extract(
    encoder: nn.Module,
    data: ImageData,
    *,
    preprocess: Callable[[Tensor], Tensor] | None = None,
    alter: Alter | None = None,
    batch_size: int = 256,
    device: str | torch.device | None = None,
    workers: int = 0,
    progress: Progress | None = None,
) -> Tensor:
    """Features (n, q), float32 on the CPU, of all images in order; the encoder is in eval mode meanwhile.

    Args:
        encoder: any module that maps its input to (b, q); its mode is given back.
        preprocess: uint8 images (b, c, h, w) to the encoder's input; unless given, the encoder's own.
        alter: changes the uint8 images first, given their indices (robustness).
        device: where to run; unless given, where the encoder is.
        workers: processes that decode files.
    """
    preprocess = preprocess or getattr(encoder, "preprocess", None)
    if preprocess is None:
        raise ValueError("the encoder has no preprocess: give preprocess=, uint8 images -> its input")
    if len(data) == 0:
        raise ValueError(f"{data.name} ({data.split}) has no images")
    if device is None:
        device = next((p.device for p in encoder.parameters()), torch.device("cpu"))
    was_training = encoder.training
    encoder.eval().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    rows: list[Tensor] = []
    done = 0
    try:
        for images, samples, _ in in_order(data, batch_size, workers=workers):
            images = images.to(device, non_blocking=True)
            if alter is not None:
                images = alter(images, samples)
            inputs = preprocess(images)
            if inputs.ndim == 4:  # convolutions run about twice as fast on a CPU with channels last
                inputs = inputs.contiguous(memory_format=torch.channels_last)
            rows.append(encoder(inputs).flatten(1).float().cpu())
            done += len(images)
            if progress is not None:
                progress(done, len(data))
    finally:
        encoder.train(was_training)
    return torch.cat(rows)


def fingerprint(data: ImageData) -> str:
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
