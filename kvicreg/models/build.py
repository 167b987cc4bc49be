"""build_encoder: an encoder by name, carrying the description from which it can be built again."""

from __future__ import annotations

import difflib
from typing import Any

import torch
from torch import nn

from kvicreg.models.cnn import SmallCNN
from kvicreg.models.resnet import ResNet18

NAMES = ("small-cnn", "resnet18", "timm:NAME", "torchvision:NAME")


def build_encoder(
    name: str,
    in_channels: int = 3,
    image_size: int = 32,
    *,
    width: float = 1.0,
    stem: str = "auto",
    pool: int = 2,
    norm: str = "batch",
    early_pool: int = 0,
) -> nn.Module:
    """Build an encoder with `.feature_dim` and `.description` (the arguments, ready for json).

    Args:
        name: "small-cnn", "resnet18", "timm:NAME" or "torchvision:NAME" (where that package is installed).
        in_channels: channels of the images.
        image_size: side of the images, which chooses the stem when it is "auto".
        width: factor on every layer's channels.
        stem: ResNet-18's first layers: "small", "imagenet", or "auto" (small up to 64 pixels).
        pool: the small CNN's feature map is averaged to pool x pool.
        norm: "batch", or "group" for an encoder without batch statistics.
        early_pool: the small CNN's second map, averaged to early_pool x early_pool, is kept beside the last.
    """
    if stem not in ("auto", "small", "imagenet"):
        raise ValueError(f"stem must be 'auto', 'small' or 'imagenet', got {stem!r}")
    if width <= 0:
        raise ValueError(f"width must be positive, got {width}")
    description: dict[str, Any] = {"name": name, "in_channels": in_channels, "image_size": image_size}
    encoder: nn.Module
    if name == "small-cnn":
        needed = max(8 * pool, 4 * early_pool)
        if image_size < needed:
            raise ValueError(
                f"small-cnn, pool={pool}, early_pool={early_pool}, needs images of {needed} pixels, got {image_size}: "
                f"enlarge them with image_size={needed} (--image-size {needed})"
            )
        description |= {"width": width, "pool": pool, "norm": norm, "early_pool": early_pool}
        encoder = SmallCNN(in_channels, width, pool, norm, early_pool)
    elif name == "resnet18":
        if stem == "auto":
            stem = "small" if image_size <= 64 else "imagenet"
        description |= {"width": width, "stem": stem, "norm": norm}
        encoder = ResNet18(in_channels, width, stem, norm)  # type: ignore[arg-type]
    elif name.startswith("timm:"):
        encoder = _timm(name.removeprefix("timm:"), in_channels)
    elif name.startswith("torchvision:"):
        encoder = _torchvision(name.removeprefix("torchvision:"), in_channels, image_size)
    else:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(NAMES)}."
        raise ValueError(f"encoder {name!r} is not known; {hint}")
    encoder.description = description  # type: ignore[assignment]
    return encoder


def _timm(name: str, in_channels: int) -> nn.Module:
    try:
        import timm
    except ImportError as error:
        raise ImportError(f"encoder 'timm:{name}' needs the package timm: pip install timm") from error
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=1)
        raise ValueError(f"timm has no model {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    encoder: nn.Module = timm.create_model(name, pretrained=False, num_classes=0, in_chans=in_channels)
    encoder.feature_dim = encoder.num_features
    return encoder


def _torchvision(name: str, in_channels: int, image_size: int) -> nn.Module:
    try:
        from torchvision import models
    except (ImportError, RuntimeError) as error:  # a wheel built for another torch raises RuntimeError
        raise ImportError(f"encoder 'torchvision:{name}' needs a working torchvision ({error})") from error
    if in_channels != 3:
        raise ValueError(f"'torchvision:{name}' takes 3 channels, got {in_channels}: pass --channels 3")
    encoder: nn.Module = models.get_model(name, weights=None)
    for head in ("fc", "classifier", "head", "heads"):
        if hasattr(encoder, head):
            setattr(encoder, head, nn.Identity())
            break
    with torch.no_grad():
        encoder.feature_dim = encoder.eval()(torch.zeros(1, 3, image_size, image_size)).shape[1]
    return encoder.train()
