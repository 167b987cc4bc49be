"""The encoder that images are explored with: that of a run, or one that needs no training."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torch
from torch import nn

from kvicreg.measures.features import choose_device
from kvicreg.models import PretrainedEncoder
from kvicreg.runs import load_encoder

__all__ = ["PIXELS", "open_encoder", "weights_key"]

PIXELS = "pixels"
_SIDE = 16


def open_encoder(name: str | Path, *, device: str = "auto") -> PretrainedEncoder:
    """A run's encoder, with its projector where the run has left one, or "pixels": the image itself, 16 x 16.

    Args:
        name: a run folder, a file of its encoder, a checkpoint, or "pixels".
        device: cpu, cuda, or auto.

    Example:
        >>> open_encoder("pixels").feature_dim
        768
    """
    if str(name) == PIXELS:
        width = 3 * _SIDE * _SIDE
        description = {"feature_dim": width, "image_size": _SIDE, "mean": [0.5] * 3, "std": [0.25] * 3}
        encoder = PretrainedEncoder(nn.Flatten(), None, {**description, "architecture": {"name": PIXELS}})
        return encoder.to(choose_device(device)).eval()
    if not Path(name).exists():
        raise ValueError(f"encoder: {str(name)!r} is no run folder or checkpoint here, and not {PIXELS!r}")
    return load_encoder(name, device=choose_device(device))


def weights_key(encoder: PretrainedEncoder) -> str:
    """A hash of the weights and of what is done to an image before they see it."""
    seen = {name: encoder.description[name] for name in ("image_size", "mean", "std")}
    digest = hashlib.sha256(json.dumps(seen, sort_keys=True).encode())
    for name, value in sorted(encoder.encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
