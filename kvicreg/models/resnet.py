"""ResNet-18 (He et al., 2016), with the ImageNet stem or the small-image stem, at any width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from kvicreg.models.encoder import EncoderOptions
from kvicreg.models.norm import norm2d, scaled
from kvicreg.options import option

__all__ = ["ResNet18", "ResNet18Options"]

Stem = Literal["imagenet", "small"]


@dataclass(frozen=True, kw_only=True)
class ResNet18Options(EncoderOptions, name="resnet18"):
    """Settings of ResNet-18."""

    width: float = option(1.0, "Factor on the encoder's channels.", above=0)
    stem: Literal["auto", "small", "imagenet"] = option("auto", "First layers; auto is small up to 64 pixels.")

    def resolved(self, image_size: int) -> ResNet18Options:
        return replace(self, stem="small" if image_size <= 64 else "imagenet") if self.stem == "auto" else self

    def make(self, in_channels: int, image_size: int, norm: str) -> ResNet18:
        assert self.stem != "auto"
        return ResNet18(in_channels, self.width, self.stem, norm)


class BasicBlock(nn.Module):
    """relu(x' + conv3x3(relu(conv3x3(x)))), where x' is x, or its 1x1 projection when the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = norm2d(norm, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = norm2d(norm, outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm2d(norm, outputs))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(x)) + shortcut, inplace=True)


class ResNet18(nn.Module):
    """Images (b, in_channels, h, w) to features (b, 512 * width).

    The trunk of the published network: 11,176,512 parameters with the ImageNet stem, 3 channels and width 1.
    Parameter names are those of the common checkpoints (conv1, layer1.0.bn1, ...), so their weights load.

    Args:
        in_channels: channels of the images.
        width: factor on every layer's channels (64, 128, 256, 512), rounded to multiples of 8; 0.25 is narrow.
        stem: "imagenet" is a 7x7 convolution of stride 2 and a max-pool; "small" is a 3x3 convolution of
            stride 1, for images of about 64 pixels or less.
        norm: "batch", or "group" for an encoder without batch statistics.

    Example:
        >>> ResNet18(width=0.25, stem="small")(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 128])
    """

    def __init__(self, in_channels: int = 3, width: float = 1.0, stem: Stem = "imagenet", norm: str = "batch") -> None:
        super().__init__()
        if stem not in ("imagenet", "small"):
            raise ValueError(f"stem must be 'imagenet' or 'small', got {stem!r}")
        widths = [scaled(c, width) for c in (64, 128, 256, 512)]
        self.feature_dim = widths[-1]
        kernel, stride = (7, 2) if stem == "imagenet" else (3, 1)
        self.conv1 = nn.Conv2d(in_channels, widths[0], kernel, stride, kernel // 2, bias=False)
        self.bn1 = norm2d(norm, widths[0])
        self.maxpool = nn.MaxPool2d(3, 2, 1) if stem == "imagenet" else nn.Identity()
        self.layer1 = _stage(widths[0], widths[0], 1, norm)
        self.layer2 = _stage(widths[0], widths[1], 2, norm)
        self.layer3 = _stage(widths[1], widths[2], 2, norm)
        self.layer4 = _stage(widths[2], widths[3], 2, norm)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return F.adaptive_avg_pool2d(x, 1).flatten(1)


def _stage(inputs: int, outputs: int, stride: int, norm: str) -> nn.Sequential:
    return nn.Sequential(BasicBlock(inputs, outputs, stride, norm), BasicBlock(outputs, outputs, 1, norm))
