"""A trained encoder with what is needed to use it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kvicreg.models.projector import Projector
from kvicreg.models.start import library_module

__all__ = ["PretrainedEncoder"]

GREY = (0.299, 0.587, 0.114)  # ITU-R 601 luma, as Pillow's "L"


class PretrainedEncoder(nn.Module):
    """A trained encoder with what is needed to use it: `encoder(encoder.preprocess(uint8_images))`.

    Attributes:
        feature_dim: width of the output.
        image_size: side the images are brought to.
        description: the content of encoder.json.

    Example:
        >>> description = {"feature_dim": 512, "image_size": 28, "mean": [0.5], "std": [0.25]}
        >>> encoder = PretrainedEncoder(SmallCNN(), projector=None, description=description)
        >>> encoder(encoder.preprocess(torch.zeros(2, 3, 40, 32, dtype=torch.uint8))).shape
        torch.Size([2, 512])
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

    @property
    def module(self) -> nn.Module:
        """The module of the library that the encoder comes from (timm, transformers, torchvision), to use there."""
        return library_module(self.encoder)

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images (b, c, s, s) to features (b, feature_dim)."""
        if not images.is_floating_point():
            raise ValueError(f"images must be normalised, encoder(encoder.preprocess(images)), got {images.dtype}")
        features: Tensor = self.encoder(images)
        return features if self.projector is None else self.projector(features)

    def preprocess(self, images: Tensor) -> Tensor:
        """Images (b, c, h, w) to normalised floats: made squares as in training, resized, channels matched.

        They are uint8, or where the encoder was trained on deeper images, floats of the same scale: 0 black, 255 white.
        """
        if not isinstance(images, Tensor):
            raise TypeError(f"images must be a tensor, uint8 of shape (b, c, h, w), got {type(images).__name__}")
        is_deep = images.is_floating_point() and self.description.get("intensity") is not None
        if not (images.dtype == torch.uint8 or is_deep) or images.ndim != 4:
            raise ValueError(f"images must be uint8 of shape (b, c, h, w), got {images.dtype} {tuple(images.shape)}")
        given, channels = images.shape[1], self.mean.shape[1]
        if given not in (channels, 1) and (given, channels) != (3, 1):
            raise ValueError(f"images must be (b, {channels}, h, w), got {tuple(images.shape)}")
        x = images.to(self.mean.device).float() / 255.0  # not in place: floats are the caller's own
        x = _square(x, self.image_size, self.description.get("fit", "crop"))
        if given != channels:
            if channels == 1:
                x = (x * x.new_tensor(GREY).view(1, 3, 1, 1)).sum(1, keepdim=True)
            else:
                x = x.expand(-1, channels, -1, -1)
        return (x - self.mean) / self.std


def _square(images: Tensor, size: int, fit: str) -> Tensor:
    """Images (b, c, size, size): the centre of each, all of it between black bars, or all of it stretched."""
    h, w = images.shape[2:]
    scale = size / (max(h, w) if fit == "letterbox" else min(h, w))
    shape = (size, size) if fit == "stretch" else (max(1, round(h * scale)), max(1, round(w * scale)))
    if shape != (h, w):
        images = F.interpolate(images, shape, mode="bilinear", align_corners=False, antialias=True)
    top, left = (shape[0] - size) // 2, (shape[1] - size) // 2
    if fit == "letterbox":
        return F.pad(images, (-left, size - shape[1] + left, -top, size - shape[0] + top))
    return images[:, :, top : top + size, left : left + size]
