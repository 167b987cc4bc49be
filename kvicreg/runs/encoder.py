"""The encoder that a run leaves: weights in safetensors, a description in json, never pickle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kvicreg.models.encoder import build_encoder, feature_dim
from kvicreg.models.pretrained import PretrainedEncoder
from kvicreg.models.projector import Projector
from kvicreg.models.weights import fill, one_line, read_safetensors, save_weights
from kvicreg.runs.stored import DESCRIPTION, PROJECTOR, WEIGHTS, StoredEncoder, Which
from kvicreg.storage import write_json

__all__ = ["describe_encoder", "load_encoder", "load_start", "remove_encoder", "save_encoder"]


def save_encoder(
    encoder: nn.Module,
    folder: str | Path,
    *,
    image_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    data: str | None = None,
    projector: nn.Module | None = None,
    intensity: str | None = None,
    fit: str = "crop",
) -> Path:
    """Write encoder.safetensors, encoder.json and, when given, projector.safetensors into a folder.

    An encoder not made by `build_encoder` is marked "custom": `load_encoder` asks for the module to fill.

    Example:
        >>> made = build_encoder("small-cnn", in_channels=1, image_size=28)
        >>> save_encoder(made, "digits", image_size=28, mean=[0.13], std=[0.31]).name
        'encoder.safetensors'
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    description = describe_encoder(encoder, image_size, mean, std, data, projector, intensity, fit)
    save_weights(encoder, folder / WEIGHTS)
    if projector is not None:
        save_weights(projector, folder / PROJECTOR)
    write_json(folder / DESCRIPTION, description)
    return folder / WEIGHTS


def describe_encoder(
    encoder: nn.Module,
    image_size: int,
    mean: Sequence[float],
    std: Sequence[float],
    data: str | None = None,
    projector: nn.Module | None = None,
    intensity: str | None = None,
    fit: str = "crop",
) -> dict[str, Any]:
    """What `load_encoder` needs beside the weights, in plain values.

    `intensity` is the range of raw values, such as "0:4095", that was black to white in images of more than 8 bits;
    `fit` is how images became squares.
    """
    from kvicreg import __version__

    return {
        "architecture": getattr(encoder, "description", {"name": "custom"}),
        "feature_dim": feature_dim(encoder),
        "image_size": image_size,
        "mean": [float(v) for v in mean],
        "std": [float(v) for v in std],
        "data": data,
        "intensity": intensity,
        "fit": fit,
        "projector": getattr(projector, "description", None),
        "version": __version__,
    }


def load_encoder(
    path: str | Path,
    *,
    which: Which | None = None,
    projector: bool = False,
    encoder: nn.Module | None = None,
    device: str | torch.device = "cpu",
) -> PretrainedEncoder:
    """Load an encoder in evaluation mode from a run.

    Of a run that has not finished it is that of the last checkpoint, and a line says so.

    Args:
        path: the run folder, a file of its encoder, a checkpoint, or zoo:NAME, an encoder that comes with the package.
        which: the checkpoint to read, "last" or "best", whether or not the run has finished.
        projector: also apply the projector, to get the embeddings the loss saw.
        encoder: the module to fill, for encoders that `build_encoder` does not know.
        device: where to put it.

    Example:
        >>> made = build_encoder("small-cnn", in_channels=1, image_size=28)
        >>> folder = save_encoder(made, "digits", image_size=28, mean=[0.13], std=[0.31])
        >>> encoder = load_encoder("digits")
        >>> encoder(encoder.preprocess(torch.zeros(2, 1, 28, 28, dtype=torch.uint8))).shape
        torch.Size([2, 512])
    """
    stored = StoredEncoder(path, which)
    description = stored.description()
    try:
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
        file = stored.checkpoint or stored.folder / DESCRIPTION
        raise ValueError(f"{file} is damaged or not written by kvicreg ({one_line(error)})") from error
    if encoder is None:
        raise ValueError(
            f"{stored.folder} holds somebody's own encoder: pass load_encoder(..., encoder=module) to fill it"
        )
    stored.fill(encoder)
    if head is not None:
        stored.fill(head, "projector")
    stored.warn_if_unfinished()
    return whole.to(device).eval()


def load_start(weights: Path, description: dict[str, Any]) -> PretrainedEncoder:
    """The encoder of a description, with the weights that its training started from."""
    encoder = build_encoder(**description["architecture"])
    fill(encoder, read_safetensors(weights), weights)
    return PretrainedEncoder(encoder, None, description)


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


def remove_encoder(folder: Path) -> None:
    """Take away what `save_encoder` has left."""
    for name in (DESCRIPTION, WEIGHTS, PROJECTOR):
        (folder / name).unlink(missing_ok=True)
