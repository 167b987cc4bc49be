"""The encoder that a run leaves: weights in safetensors, a description in json, never pickle."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kvicreg.models.encoder import build_encoder, feature_dim
from kvicreg.models.pretrained import PretrainedEncoder
from kvicreg.models.projector import Projector
from kvicreg.models.weights import load_weights, one_line, save_weights
from kvicreg.storage import write_atomically

__all__ = [
    "encoder_hash",
    "encoder_weights",
    "has_encoder",
    "load_encoder",
    "read_description",
    "remove_encoder",
    "save_encoder",
]

DESCRIPTION, WEIGHTS, PROJECTOR = "encoder.json", "encoder.safetensors", "projector.safetensors"


def save_encoder(
    encoder: nn.Module,
    folder: str | Path,
    *,
    image_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    data: str | None = None,
    projector: nn.Module | None = None,
) -> Path:
    """Write encoder.safetensors, encoder.json and, when given, projector.safetensors into a folder.

    An encoder not made by `build_encoder` is marked "custom": `load_encoder` asks for the module to fill.
    """
    from kvicreg import __version__

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    description = {
        "architecture": getattr(encoder, "description", {"name": "custom"}),
        "feature_dim": feature_dim(encoder),
        "image_size": image_size,
        "mean": [float(v) for v in mean],
        "std": [float(v) for v in std],
        "data": data,
        "projector": getattr(projector, "description", None),
        "version": __version__,
    }
    save_weights(encoder, folder / WEIGHTS)
    if projector is not None:
        save_weights(projector, folder / PROJECTOR)
    write_atomically(folder / DESCRIPTION, json.dumps(description, indent=2).encode() + b"\n")
    return folder / WEIGHTS


def load_encoder(
    path: str | Path,
    *,
    projector: bool = False,
    encoder: nn.Module | None = None,
    device: str | torch.device = "cpu",
) -> PretrainedEncoder:
    """Load an encoder in evaluation mode from a run folder, its encoder.safetensors or its encoder.json.

    Args:
        path: the run folder or a file in it.
        projector: also apply the projector, to get the embeddings the loss saw.
        encoder: the module to fill, for encoders that `build_encoder` does not know.
        device: where to put it.
    """
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    for name in (DESCRIPTION, WEIGHTS, *([PROJECTOR] if projector else [])):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} has no {name}: expected the folder of a finished run")
    try:
        description = json.loads((folder / DESCRIPTION).read_text())
        is_custom = description["architecture"]["name"] == "custom"
        if not is_custom:
            encoder = build_encoder(**description["architecture"]) if encoder is None else encoder
            _check_description(description, encoder)
        head = Projector(**description["projector"]) if projector else None
        if encoder is not None:
            whole = PretrainedEncoder(encoder, head, description)
    except ImportError:
        raise
    except Exception as error:  # whatever a file that is not ours makes of it
        file = folder / DESCRIPTION
        raise ValueError(f"{file} is damaged or not written by kvicreg ({one_line(error)})") from error
    if encoder is None:
        raise ValueError(f"{folder} holds somebody's own encoder: pass load_encoder(..., encoder=module) to fill it")
    load_weights(encoder, folder / WEIGHTS)
    if head is not None:
        load_weights(head, folder / PROJECTOR)
    return whole.to(device).eval()


def _check_description(description: dict[str, Any], encoder: nn.Module) -> None:
    """The parts of encoder.json must agree, and be numbers that an image can have."""
    size, channels = description["architecture"]["image_size"], description["architecture"]["in_channels"]
    if description["image_size"] != size or not isinstance(size, int) or not 1 <= size <= 1 << 14:
        raise ValueError(f"image_size {description['image_size']!r}")
    for name in ("mean", "std"):
        values = [float(value) for value in description[name]]
        if len(values) != channels or not all(map(math.isfinite, values)):
            raise ValueError(f"{name} {description[name]!r} for {channels} channels")
    if description["feature_dim"] != encoder.feature_dim:
        raise ValueError(f"feature_dim {description['feature_dim']!r}")


def has_encoder(folder: Path) -> bool:
    """Whether a training has left its encoder here."""
    return (folder / DESCRIPTION).is_file() and (folder / WEIGHTS).is_file()


def remove_encoder(folder: Path) -> None:
    """Take away what `save_encoder` has left."""
    for name in (DESCRIPTION, WEIGHTS, PROJECTOR):
        (folder / name).unlink(missing_ok=True)


def read_description(folder: Path) -> dict[str, Any]:
    """What the encoder of a finished run is: its architecture, image size and normalization."""
    if not has_encoder(folder):
        raise ValueError(f"{folder} has no encoder: its training has not finished; resume it with kvicreg train")
    try:
        description = json.loads((folder / DESCRIPTION).read_text())
        needed = ("architecture", "feature_dim", "image_size", "mean", "std")
        missing = [name for name in needed if name not in description]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{folder / DESCRIPTION} is damaged ({error}); train the run again") from error
    if missing:
        raise ValueError(f"{folder / DESCRIPTION} lacks {', '.join(missing)}; it was not written by kvicreg")
    return dict(description)


def encoder_hash(folder: Path) -> str:
    """A hash of the encoder's weights."""
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def encoder_weights(path: str | Path) -> Path:
    """The file of weights that a run folder holds, or that `path` is."""
    return Path(path) / WEIGHTS if Path(path).is_dir() else Path(path)
