"""Encoders of timm: ``timm:NAME``, without its classifier."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from kvicreg.models.bridges import PooledOptions, check_patches, measured
from kvicreg.models.encoder import IMAGENET, Normalization
from kvicreg.options import did_you_mean, option

__all__ = ["TimmOptions"]


@dataclass(frozen=True, kw_only=True)
class TimmOptions(PooledOptions, name="timm"):
    """A model of timm, pooled as the model means it, unless `pooling` says otherwise."""

    model: str = option("", "Name of the model.", argument=True)

    def library(self) -> Any:
        """The package timm, where it has this model."""
        timm = self.imported("timm")
        if not timm.is_model(self.model):
            raise ValueError(f"timm has no model {self.model!r}; {did_you_mean(self.model, timm.list_models())}")
        return timm

    def make(self, in_channels: int, image_size: int, norm: str) -> nn.Module:
        encoder: Any
        timm, about = self.library(), self._about()
        size = {"img_size": image_size} if about.get("fixed_input_size") else {}
        pooling = {} if self.pooling == "model" else {"global_pool": self.pooling}
        encoder = self.constructed(
            timm.create_model, model_name=self.model, num_classes=0, in_chans=in_channels, **size, **pooling
        )
        if size and hasattr(encoder, "patch_embed"):
            check_patches(self.choice, image_size, encoder.patch_embed.patch_size)
        return measured(encoder, self.choice, in_channels, image_size, about.get("input_size", (3, 224))[-1])

    def published(self) -> Mapping[str, Tensor]:
        timm = self.library()
        try:
            model: nn.Module = timm.create_model(self.model, pretrained=True, **self.arguments())
        except Exception as error:  # whatever the network, the hub or the library comes up with
            raise self.unavailable(error) from error
        return model.state_dict()

    def normalization(self) -> Normalization:
        about = self._about()
        return Normalization(tuple(about.get("mean", IMAGENET.mean)), tuple(about.get("std", IMAGENET.std)))

    def translated(self, weights: Mapping[str, Tensor], encoder: nn.Module) -> Mapping[str, Tensor]:
        """By timm's own filter of the layouts in which the model's authors publish it, where it has one."""
        filter_weights = getattr(importlib.import_module(type(encoder).__module__), "checkpoint_filter_fn", None)
        if filter_weights is None:
            return weights
        try:
            translated: Mapping[str, Tensor] = filter_weights(dict(weights), encoder)
        except (KeyError, ValueError, TypeError, RuntimeError, AssertionError, AttributeError):
            return weights  # another layout than it knows
        return translated

    def _about(self) -> dict[str, Any]:
        """What timm says of the model's weights: their images' size and normalization."""
        config = self.library().models.get_pretrained_cfg(self.model)
        return {} if config is None else dict(config.to_dict())
