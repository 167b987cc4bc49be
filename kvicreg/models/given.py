"""An encoder that was given from Python: a run's config has its name alone."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from kvicreg.models.encoder import EncoderOptions
from kvicreg.options import option

__all__ = ["GivenEncoder"]


@dataclass(frozen=True, kw_only=True)
class GivenEncoder(EncoderOptions, name="python"):
    """A module of somebody's own, which only its owner can make."""

    module: str = option("", "Name of its class.", argument=True)

    def make(self, in_channels: int, image_size: int, norm: str) -> nn.Module:
        raise ValueError(
            f"the encoder of this run was given from Python ({self.module}): pass encoder=..., from Python"
        )
