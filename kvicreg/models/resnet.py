"""ResNet-18 and ResNet-50 (He et al., 2016), with the ImageNet stem or the small-image stem, at any width."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from kvicreg.models.encoder import IMAGENET, EncoderOptions, Normalization
from kvicreg.models.norm import norm2d, scaled
from kvicreg.options import option

__all__ = ["ResNet", "ResNet18", "ResNet18Options", "ResNet50", "ResNet50Options"]

Stem = Literal["imagenet", "small"]


class BasicBlock(nn.Module):
    """relu(x' + conv3x3(relu(conv3x3(x)))), where x' is x, or its 1x1 projection when the shape changes."""

    expansion: ClassVar[int] = 1

    def __init__(self, inputs: int, width: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = norm2d(norm, width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm2d(norm, width)
        self.downsample = _projection(inputs, width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(x)) + shortcut, inplace=True)


class Bottleneck(nn.Module):
    """relu(x' + conv1x1(relu(conv3x3(relu(conv1x1(x)))))), four times as wide outside; the 3x3 has the stride."""

    expansion: ClassVar[int] = 4

    def __init__(self, inputs: int, width: int, stride: int, norm: str) -> None:
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = norm2d(norm, width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = norm2d(norm, width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = norm2d(norm, outputs)
        self.downsample = _projection(inputs, outputs, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.relu(self.bn2(self.conv2(x)), inplace=True)
        return F.relu(self.bn3(self.conv3(x)) + shortcut, inplace=True)


def _projection(inputs: int, outputs: int, stride: int, norm: str) -> nn.Module | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm2d(norm, outputs))


class ResNet(nn.Module):
    """Images (b, in_channels, h, w) to features (b, 512 * expansion * width), by four stages of blocks.

    Parameter names are those of the common checkpoints (conv1, layer1.0.bn1, ...), so their weights load.

    Args:
        in_channels: channels of the images.
        width: factor on every layer's channels (64, 128, 256, 512), rounded to multiples of 8; 0.25 is narrow.
        stem: "imagenet" is a 7x7 convolution of stride 2 and a max-pool; "small" is a 3x3 convolution of
            stride 1, for images of about 64 pixels or less.
        norm: "batch", or "group" for an encoder without batch statistics.
    """

    block: ClassVar[type[BasicBlock] | type[Bottleneck]]
    depths: ClassVar[tuple[int, int, int, int]]

    def __init__(self, in_channels: int = 3, width: float = 1.0, stem: Stem = "imagenet", norm: str = "batch") -> None:
        super().__init__()
        if stem not in ("imagenet", "small"):
            raise ValueError(f"stem must be 'imagenet' or 'small', got {stem!r}")
        widths = [scaled(c, width) for c in (64, 128, 256, 512)]
        kernel, stride = (7, 2) if stem == "imagenet" else (3, 1)
        self.conv1 = nn.Conv2d(in_channels, widths[0], kernel, stride, kernel // 2, bias=False)
        self.bn1 = norm2d(norm, widths[0])
        self.maxpool = nn.MaxPool2d(3, 2, 1) if stem == "imagenet" else nn.Identity()
        inputs = widths[0]
        for stage, (channels, depth) in enumerate(zip(widths, self.depths, strict=True), 1):
            layers = nn.Sequential()
            for number in range(depth):
                layers.append(self.block(inputs, channels, 2 if stage > 1 and number == 0 else 1, norm))
                inputs = channels * self.block.expansion
            self.add_module(f"layer{stage}", layers)
        self.feature_dim = inputs
        self.recomputes = False
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        for stage in (self.get_submodule(f"layer{number}") for number in range(1, 5)):
            x = checkpoint(stage, x, use_reentrant=False) if self.recomputes and self.training else stage(x)
        return F.adaptive_avg_pool2d(x, 1).flatten(1)

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Compute each stage's activations again in the backward pass, as timm's models call it."""
        self.recomputes = enable


class ResNet18(ResNet):
    """The trunk of the published network: 11,176,512 parameters with the ImageNet stem, 3 channels and width 1.

    Example:
        >>> ResNet18(width=0.25, stem="small")(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 128])
    """

    block, depths = BasicBlock, (2, 2, 2, 2)


class ResNet50(ResNet):
    """The trunk of the published network, with the stride in the 3x3 convolutions: 23,508,032 parameters.

    Example:
        >>> ResNet50(width=0.25, stem="small")(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 512])
    """

    block, depths = Bottleneck, (3, 4, 6, 3)


@dataclass(frozen=True, kw_only=True)
class ResNet18Options(EncoderOptions, name="resnet18"):
    """Settings of ResNet-18."""

    network: ClassVar[type[ResNet]] = ResNet18
    width: float = option(1.0, "Factor on the encoder's channels.", above=0)
    stem: Literal["auto", "small", "imagenet"] = option("auto", "First layers; auto is small up to 64 pixels.")

    def resolved(self, image_size: int) -> Self:
        return replace(self, stem="small" if image_size <= 64 else "imagenet") if self.stem == "auto" else self

    def make(self, in_channels: int, image_size: int, norm: str) -> ResNet:
        assert self.stem != "auto"
        return self.network(in_channels, self.width, self.stem, norm)

    def normalization(self) -> Normalization:
        return IMAGENET


@dataclass(frozen=True, kw_only=True)
class ResNet50Options(ResNet18Options, name="resnet50"):
    """Settings of ResNet-50."""

    network = ResNet50
