"""The small CNN: four convolutions, quick enough to pretrain on a laptop's processor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kvicreg.models.encoder import EncoderOptions
from kvicreg.models.norm import norm2d, scaled
from kvicreg.options import option

__all__ = ["AutoOptions", "SmallCNN", "SmallCNNOptions"]


@dataclass(frozen=True, kw_only=True)
class SmallCNNOptions(EncoderOptions, name="small-cnn"):
    """Settings of the small CNN."""

    width: float = option(1.0, "Factor on the encoder's channels.", above=0)
    pool: int = option(2, "The last map is averaged to pool x pool.", above=0)
    early_pool: int = option(
        0, "The second map, averaged to early_pool x early_pool, joins the last; 0 for not.", at_least=0
    )

    def make(self, in_channels: int, image_size: int, norm: str) -> SmallCNN:
        needed = max(8 * self.pool, 4 * self.early_pool)
        if image_size < needed:
            raise ValueError(
                f"small-cnn, pool={self.pool}, early_pool={self.early_pool}, needs images of {needed} pixels, got "
                f"{image_size}: enlarge them with image_size={needed} (--image-size {needed})"
            )
        return SmallCNN(in_channels, self.width, self.pool, norm, self.early_pool)


@dataclass(frozen=True, kw_only=True)
class AutoOptions(SmallCNNOptions, name="auto"):
    """An encoder that is left open: the small CNN, or for larger images of one's own what `training.plan` chooses.

    Settings of the small CNN that are given make it one.
    """

    def resolved(self, image_size: int) -> EncoderOptions:
        return SmallCNNOptions(**self.flat())


class SmallCNN(nn.Module):
    """Images (b, in_channels, h, w) to features (b, (128 pool^2 + 64 early_pool^2) * width).

    Four blocks of 3x3 convolution, normalisation and ReLU with 32, 64, 128 and 128 channels (times width);
    the first three are followed by a 2x2 max-pool; the last map is average-pooled to pool x pool.

    Args:
        in_channels: channels of the images.
        width: factor on every layer's channels, rounded to multiples of 8.
        pool: 1 averages over the whole image; 2 keeps its quarters apart, which tells where things are.
        early_pool: the second block's map, averaged to early_pool x early_pool, is kept beside the last; 0 for not.
        norm: "batch", or "group" for an encoder without batch statistics.

    Example:
        >>> SmallCNN(in_channels=1, pool=2)(torch.randn(2, 1, 28, 28)).shape
        torch.Size([2, 512])
    """

    def __init__(
        self, in_channels: int = 1, width: float = 1.0, pool: int = 2, norm: str = "batch", early_pool: int = 0
    ) -> None:
        super().__init__()
        channels = [scaled(c, width) for c in (32, 64, 128, 128)]
        self.feature_dim = channels[-1] * pool**2 + channels[1] * early_pool**2
        layers: list[nn.Module] = []
        for i, (inputs, outputs) in enumerate(zip([in_channels, *channels], channels, strict=False)):
            layers += [nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False), norm2d(norm, outputs), nn.ReLU(True)]
            if i < 3:
                layers.append(nn.MaxPool2d(2))
        self.blocks = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(pool)
        self.early_pool = nn.AdaptiveAvgPool2d(early_pool) if early_pool else None

    def forward(self, x: Tensor) -> Tensor:
        early = x
        for number, layer in enumerate(self.blocks, 1):
            x = layer(x)
            early = x if number == 8 else early  # two blocks of four layers
        features: Tensor = self.pool(x).flatten(1)
        return features if self.early_pool is None else torch.cat([features, self.early_pool(early).flatten(1)], 1)
