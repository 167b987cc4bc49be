"""The encoder that images are explored with: that of a run, or one that needs no training."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kvicreg.measures.features import choose_device
from kvicreg.models import PretrainedEncoder
from kvicreg.models.encoder import ENCODERS, IMAGENET
from kvicreg.runs import load_encoder
from kvicreg.runs.encoder import describe_encoder
from kvicreg.runs.settings import ModelOptions
from kvicreg.runs.start import fill_with_start, start_normalization
from kvicreg.runs.zoo import is_of_zoo

__all__ = ["PIXELS", "open_encoder", "weights_key"]

PIXELS = "pixels"
_SIDE = 16


def open_encoder(
    name: str | Path, *, weights: str | Path | None = None, image_size: int = 224, device: str = "auto"
) -> PretrainedEncoder:
    """A run's encoder; "pixels", the image itself at 16 x 16; or an encoder by name with weights of others.

    Args:
        name: a run folder, a file of its encoder, a checkpoint, zoo:NAME, "pixels", or such as "timm:NAME",
            "hf:NAME".
        weights: file of the weights of an encoder by name; by default its published ones, which are downloaded.
        image_size: side of the images that an encoder by name takes.
        device: cpu, cuda, or auto.

    Example:
        >>> open_encoder("pixels").feature_dim
        768
    """
    if str(name) == PIXELS:
        encoder = _pixels()
    elif is_of_zoo(name) or Path(name).exists():
        encoder = load_encoder(name)
    elif str(name).partition(":")[0] in ENCODERS.load():
        encoder = _by_name(str(name), weights, image_size)
    else:
        names = ", ".join(sorted({*ENCODERS.load()} - {"auto", "python"}))
        raise ValueError(
            f"encoder: {str(name)!r} is no run folder or checkpoint here, not {PIXELS!r} and none of {names}"
        )
    return encoder.to(choose_device(device)).eval()


def _pixels() -> PretrainedEncoder:
    description = {"feature_dim": 3 * _SIDE * _SIDE, "image_size": _SIDE, "mean": [0.5] * 3, "std": [0.25] * 3}
    return PretrainedEncoder(nn.Flatten(), None, {**description, "architecture": {"name": PIXELS}})


def _by_name(name: str, weights: str | Path | None, image_size: int) -> PretrainedEncoder:
    """An encoder of this or another library, filled with published weights or with those of a file."""
    start: dict[str, Any] = {"pretrained": True} if weights is None else {"init": str(weights)}
    model = ModelOptions.of(encoder=name, **start)
    encoder = model.encoder.build(3, image_size, model.norm)
    for sentence in fill_with_start(encoder, model):
        logging.getLogger("kvicreg").info(sentence)
    mean, std = start_normalization(model, 3) or IMAGENET
    return PretrainedEncoder(encoder, None, describe_encoder(encoder, image_size, mean, std))


def weights_key(encoder: PretrainedEncoder) -> str:
    """A hash of the weights and of what is done to an image before they see it."""
    seen = {name: encoder.description[name] for name in ("image_size", "mean", "std")}
    digest = hashlib.sha256(json.dumps(seen, sort_keys=True).encode())
    for name, value in sorted(encoder.encoder.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
