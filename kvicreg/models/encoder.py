"""Encoders by name: each family owns its settings and builds a module with `.feature_dim` and `.description`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

from torch import Tensor, nn

from kvicreg.options import Family, Options, Values, did_you_mean, readers

__all__ = ["ENCODERS", "IMAGENET", "EncoderOptions", "Normalization", "build_encoder", "feature_dim"]


class Normalization(NamedTuple):
    """The mean and the deviation of each channel, on the scale [0, 1], that images are brought to."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


IMAGENET = Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""What nearly all published weights were trained with."""


class _Encoders(Family["EncoderOptions"]):
    """The encoders; a name that is no library's, such as ``my_module:build``, is a function of somebody's own."""

    def read(self, name: str, values: Values) -> EncoderOptions:
        stem, colon, _ = str(name).partition(":")
        return super().read(f"module:{name}" if colon and stem not in self.load() else name, values)


ENCODERS: Family[EncoderOptions] = _Encoders("encoder", "kvicreg.models")


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(Options):
    """Settings of an encoder. A new family defines `make`, in a file of its own in this folder."""

    family: ClassVar[Family[Any]] = ENCODERS

    def make(self, in_channels: int, image_size: int, norm: str) -> nn.Module:
        """A module with `.feature_dim` that maps images ``(b, in_channels, image_size, image_size)`` to features."""
        raise NotImplementedError

    def resolved(self, image_size: int) -> EncoderOptions:
        """The settings with everything chosen that the size of the images decides."""
        return self

    def published(self) -> Mapping[str, Tensor]:
        """The weights that the library itself has for this model, by the library's names."""
        raise ValueError(
            f"--pretrained: {self.choice} has no published weights; timm:NAME, hf:NAME and torchvision:NAME have, and "
            "--init FILE starts from a file"
        )

    def normalization(self) -> Normalization | None:
        """How images were normalized for published weights of this model; None where nobody can tell."""
        return None

    def translated(self, weights: Mapping[str, Tensor], encoder: nn.Module) -> Mapping[str, Tensor]:
        """Weights in a layout that the library knows, by the names of the encoder."""
        return weights

    def build(self, in_channels: int, image_size: int, norm: str = "batch") -> nn.Module:
        """The encoder, carrying the description from which `build_encoder` makes it again."""
        options = self.resolved(image_size)
        encoder = options.make(in_channels, image_size, norm)
        images = {"name": options.choice, "in_channels": in_channels, "image_size": image_size, "norm": norm}
        cast(Any, encoder).description = {**images, **options.flat()}
        return encoder


def feature_dim(encoder: nn.Module) -> int:
    """The width of an encoder's features, which it tells as `.feature_dim`."""
    if not hasattr(encoder, "feature_dim"):
        raise TypeError(
            f"encoder must tell the width of its features as .feature_dim; {type(encoder).__name__} does not"
        )
    return int(cast(int, encoder.feature_dim))


def build_encoder(
    name: str, in_channels: int = 3, image_size: int = 32, *, norm: str = "batch", **settings: Any
) -> nn.Module:
    """An encoder by name with the settings of its family; a setting that it does not read is an error.

    Args:
        name: "small-cnn", "resnet18", "resnet50", "timm:NAME", "hf:NAME", "torchvision:NAME" (where that package is
            installed), or "my_module:build", a function of your own.
        in_channels: channels of the images.
        image_size: side of the images.
        norm: "batch", or "group" for an encoder without batch statistics.
        settings: such as width, pool, stem.

    Example:
        >>> build_encoder("small-cnn", in_channels=1, image_size=28, width=0.5).feature_dim
        256
    """
    values = Values(settings)
    options = ENCODERS.read(name, values)
    for setting in settings:
        if setting not in values.read:
            raise ValueError(f"{name} reads no {setting}; {did_you_mean(setting, readers(type(options)))}")
    return options.build(in_channels, image_size, norm)
