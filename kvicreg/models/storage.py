"""Encoders on disk: weights in safetensors, the description in json, never pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kvicreg.models.build import build_encoder
from kvicreg.models.projector import Projector
from kvicreg.storage import write_atomically

GREY = (0.299, 0.587, 0.114)  # ITU-R 601 luma, as Pillow's "L"


class PretrainedEncoder(nn.Module):
    """A trained encoder with what is needed to use it: `encoder(encoder.preprocess(uint8_images))`.

    Attributes:
        feature_dim: width of the output.
        image_size: side the images are brought to.
        description: the content of encoder.json.
    """

    def __init__(self, encoder: nn.Module, projector: Projector | None, description: dict[str, Any]) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = projector
        self.description = description
        self.feature_dim: int = description["feature_dim"] if projector is None else projector.output_dim
        self.image_size = int(description["image_size"])
        self.mean: Tensor
        self.std: Tensor
        for name in ("mean", "std"):
            self.register_buffer(name, torch.tensor(description[name]).view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images (b, c, s, s) to features (b, feature_dim)."""
        features: Tensor = self.encoder(images)
        return features if self.projector is None else self.projector(features)

    def preprocess(self, images: Tensor) -> Tensor:
        """uint8 images (b, c, h, w) to normalised floats: resized, centre cropped, channels matched."""
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise ValueError(f"images must be uint8 of shape (b, c, h, w), got {images.dtype} {tuple(images.shape)}")
        x = images.to(self.mean.device).float().div_(255.0)
        size, channels = self.image_size, self.mean.shape[1]
        h, w = x.shape[2:]
        if min(h, w) != size:
            scale = size / min(h, w)
            shape = (max(size, round(h * scale)), max(size, round(w * scale)))
            x = F.interpolate(x, shape, mode="bilinear", align_corners=False, antialias=True)
            h, w = shape
        top, left = (h - size) // 2, (w - size) // 2
        x = x[:, :, top : top + size, left : left + size]
        if x.shape[1] != channels:
            if channels == 1:
                x = (x * x.new_tensor(GREY).view(1, 3, 1, 1)).sum(1, keepdim=True)
            else:
                x = x.expand(-1, channels, -1, -1)
        return (x - self.mean) / self.std


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
        "feature_dim": int(encoder.feature_dim),  # type: ignore[arg-type]
        "image_size": image_size,
        "mean": [float(v) for v in mean],
        "std": [float(v) for v in std],
        "data": data,
        "projector": getattr(projector, "description", None),
        "version": __version__,
    }
    save_weights(encoder, folder / "encoder.safetensors")
    if projector is not None:
        save_weights(projector, folder / "projector.safetensors")
    write_atomically(folder / "encoder.json", json.dumps(description, indent=2).encode() + b"\n")
    return folder / "encoder.safetensors"


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
    for name in ("encoder.json", "encoder.safetensors", *(["projector.safetensors"] if projector else [])):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} has no {name}: expected the folder of a finished run")
    try:
        description = json.loads((folder / "encoder.json").read_text())
        own = description["architecture"]["name"] == "custom"
        if not own:
            encoder = build_encoder(**description["architecture"]) if encoder is None else encoder
            _check_description(description, encoder)
        head = Projector(**description["projector"]) if projector else None
        if encoder is not None:
            whole = PretrainedEncoder(encoder, head, description)
    except ImportError:
        raise
    except Exception as error:  # whatever a file that is not ours makes of it
        file = folder / "encoder.json"
        raise ValueError(f"{file} is damaged or not written by kvicreg ({_reason(error)})") from error
    if encoder is None:
        raise ValueError(f"{folder} holds somebody's own encoder: pass load_encoder(..., encoder=module) to fill it")
    load_weights(encoder, folder / "encoder.safetensors")
    if head is not None:
        load_weights(head, folder / "projector.safetensors")
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


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def save_weights(module: nn.Module, path: Path) -> None:
    """Write a module's weights and buffers as safetensors."""
    from safetensors.torch import save

    write_atomically(path, save({k: v.detach().cpu().contiguous() for k, v in module.state_dict().items()}))


def load_weights(module: nn.Module, path: str | Path) -> None:
    """Fill a module from a safetensors file, or from encoder.safetensors in a run folder."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(path) / "encoder.safetensors" if Path(path).is_dir() else Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}")
    try:
        module.load_state_dict(load_file(path))
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({_reason(error)}); train the run again") from error
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the encoder: {' '.join(str(error).split())}") from error
