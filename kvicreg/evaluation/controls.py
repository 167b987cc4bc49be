"""What a result is compared with: raw pixels, and the same architecture untrained."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kvicreg.models import PretrainedEncoder, build_encoder


class RawPixels(nn.Module):
    """The encoder that learns nothing: pixels in [0, 1], shrunk to at most `max_features` of them."""

    def __init__(self, shape: tuple[int, int, int], max_features: int = 3072) -> None:
        super().__init__()
        channels, height, width = shape
        self.side = int((max_features / channels) ** 0.5)
        self.shrink = self.side**2 < height * width
        self.feature_dim = channels * (self.side**2 if self.shrink else height * width)

    def preprocess(self, images: Tensor) -> Tensor:
        return images.float() / 255

    def forward(self, images: Tensor) -> Tensor:
        """Images (b, c, h, w) to their pixels (b, feature_dim)."""
        if self.shrink:
            images = F.interpolate(images, size=(self.side, self.side), mode="area")
        return images.flatten(1)


def random_encoder(encoder: PretrainedEncoder, *, seed: int = 0) -> PretrainedEncoder:
    """The architecture of `encoder` with fresh weights, and the same preprocessing."""
    architecture = encoder.description["architecture"]
    if architecture["name"] == "custom":
        raise ValueError("the architecture of somebody's own encoder is not known: no random control")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = build_encoder(**architecture)
    device = next(encoder.parameters()).device
    return PretrainedEncoder(fresh, None, encoder.description).to(device).eval()
