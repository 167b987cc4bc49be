"""Encoders of torchvision: ``torchvision:NAME``, without its classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from kvicreg.models.bridges import BridgeOptions, check_patches, measured
from kvicreg.models.encoder import IMAGENET, Normalization
from kvicreg.options import did_you_mean, option

__all__ = ["TorchvisionOptions"]


@dataclass(frozen=True, kw_only=True)
class TorchvisionOptions(BridgeOptions, name="torchvision"):
    """A model of torchvision."""

    model: str = option("", "Name of the model.", argument=True)

    def library(self) -> Any:
        """The models of torchvision, where this one is among them."""
        models = self.imported("torchvision.models")
        names = models.list_models(module=models)
        if self.model not in names:
            raise ValueError(f"torchvision has no model {self.model!r}; {did_you_mean(self.model, names)}")
        return models

    def make(self, in_channels: int, image_size: int, norm: str) -> nn.Module:
        size = {"image_size": image_size} if self.model.startswith("vit_") else {}
        models = self.library()
        if size:
            check_patches(self.choice, image_size, int(self.model.rpartition("_")[2]))
        encoder = self.constructed(models.get_model, name=self.model, weights=None, **size)
        for head in ("fc", "classifier", "head", "heads"):
            if hasattr(encoder, head):
                setattr(encoder, head, nn.Identity())
                break
        if in_channels != 3:
            _replace_first_convolution(encoder, in_channels)
        return measured(encoder, self.choice, in_channels, image_size)

    def published(self) -> Mapping[str, Tensor]:
        models = self.library()
        try:
            return dict(models.get_model(self.model, weights="DEFAULT", **self.arguments()).state_dict())
        except Exception as error:  # whatever the network or the library comes up with
            raise self.unavailable(error) from error

    def normalization(self) -> Normalization:
        return IMAGENET


def _replace_first_convolution(encoder: nn.Module, in_channels: int) -> None:
    """Put a convolution of so many channels in the place of the first one."""
    name, old = next((name, m) for name, m in encoder.named_modules() if isinstance(m, nn.Conv2d))
    parent, _, last = name.rpartition(".")
    new = nn.Conv2d(
        in_channels, old.out_channels, old.kernel_size, old.stride, old.padding,  # type: ignore[arg-type]
        bias=old.bias is not None,
    )  # fmt: skip
    setattr(encoder.get_submodule(parent), last, new)
