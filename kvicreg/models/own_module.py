"""An encoder that a function of somebody's own builds: ``my_module:build``."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from kvicreg.models.bridges import BridgeOptions, measured
from kvicreg.models.encoder import ENCODERS
from kvicreg.options import did_you_mean, option

__all__ = ["OwnModule"]


@dataclass(frozen=True, kw_only=True)
class OwnModule(BridgeOptions, name="module"):
    """What a function in an importable module builds, from the parameters `in_channels` and `image_size`."""

    function: str = option("", "MODULE:FUNCTION.", argument=True)

    def make(self, in_channels: int, image_size: int, norm: str) -> nn.Module:
        encoder = self.constructed(self._function(), in_channels=in_channels, image_size=image_size)
        if not isinstance(encoder, nn.Module):
            raise ValueError(f"{self.function} must give a torch.nn.Module, and gives {type(encoder).__name__}")
        return measured(encoder, self.function, in_channels, image_size)

    def _function(self) -> Callable[..., Any]:
        """The function, which must name its two parameters: nothing else may be called by the word of a file."""
        module_name, _, name = self.function.rpartition(":")
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # as `python -m` has it, and the command kvicreg has not
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            hint = did_you_mean(f"{module_name}:NAME", ENCODERS.names())
            raise ValueError(f"encoder {self.function!r}: there is no module {error.name!r} here; {hint}") from error
        function = getattr(module, name, None)
        parameters = inspect.signature(function).parameters if callable(function) else {}
        if function is None or not {"in_channels", "image_size"} <= {*parameters}:
            raise ValueError(
                f"encoder {self.function!r} must be a function of {module_name} with the parameters in_channels and "
                "image_size that gives a torch.nn.Module: images (b, in_channels, image_size, image_size) to (b, width)"
            )
        return function
