"""Encoders of other libraries: any model of timm or torchvision, where the library is installed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from kvicreg.models.encoder import EncoderOptions
from kvicreg.options import did_you_mean, option

__all__ = ["TimmOptions", "TorchvisionOptions"]


@dataclass(frozen=True, kw_only=True)
class TimmOptions(EncoderOptions, name="timm"):
    """A model of timm, without its classifier."""

    model: str = option("", "Name of the model.", argument=True)

    def make(self, in_channels: int, image_size: int, norm: str) -> nn.Module:
        try:
            import timm
        except ImportError as error:
            raise ImportError(f"encoder 'timm:{self.model}' needs the package timm: pip install timm") from error
        if not timm.is_model(self.model):
            raise ValueError(f"timm has no model {self.model!r}; {did_you_mean(self.model, timm.list_models())}")
        encoder: nn.Module = timm.create_model(self.model, pretrained=False, num_classes=0, in_chans=in_channels)
        encoder.feature_dim = encoder.num_features
        return encoder


@dataclass(frozen=True, kw_only=True)
class TorchvisionOptions(EncoderOptions, name="torchvision"):
    """A model of torchvision, without its classifier."""

    model: str = option("", "Name of the model.", argument=True)

    def make(self, in_channels: int, image_size: int, norm: str) -> nn.Module:
        try:
            from torchvision import models
        except (ImportError, RuntimeError) as error:  # a wheel built for another torch raises RuntimeError
            raise ImportError(f"encoder 'torchvision:{self.model}' needs a working torchvision ({error})") from error
        if in_channels != 3:
            raise ValueError(f"'torchvision:{self.model}' takes 3 channels, got {in_channels}: pass --channels 3")
        encoder: nn.Module = models.get_model(self.model, weights=None)
        for head in ("fc", "classifier", "head", "heads"):
            if hasattr(encoder, head):
                setattr(encoder, head, nn.Identity())
                break
        with torch.no_grad():
            encoder.feature_dim = encoder.eval()(torch.zeros(1, 3, image_size, image_size)).shape[1]
        return encoder.train()
