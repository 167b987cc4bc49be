"""What bridges to other libraries share: arguments of the library's own, sizes that fit, the width of features."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import nn

from kvicreg.models.encoder import EncoderOptions
from kvicreg.models.torchvision_import import make_torchvision_importable
from kvicreg.models.weights import one_line
from kvicreg.options import option

__all__ = ["BridgeOptions", "PooledOptions", "check_patches", "measured"]


@dataclass(frozen=True, kw_only=True)
class BridgeOptions(EncoderOptions):
    """What every model of another library reads."""

    model_args: str | None = option(
        None, "Arguments of the library's own for its model, such as drop_path_rate=0.1,depth=6."
    )

    def arguments(self) -> dict[str, Any]:
        """The arguments of `model_args` by name; a bare word is a text."""
        try:
            call = ast.parse(f"f({self.model_args or ''})", mode="eval").body
            assert isinstance(call, ast.Call)
            assert not call.args
            return {str(word.arg): _literal(word.value) for word in call.keywords}
        except (SyntaxError, ValueError, AssertionError) as error:
            wanted = "NAME=VALUE,NAME=VALUE such as drop_path_rate=0.1,depth=6"
            raise ValueError(f"model_args: expected {wanted}, got {self.model_args!r}") from error

    def constructed(self, create: Callable[..., nn.Module], **arguments: Any) -> nn.Module:
        """What the library creates with these arguments and those of `model_args`, which win; or what it objects to."""
        try:
            return create(**{**arguments, **self.arguments()})
        except ImportError:
            raise
        except Exception as error:  # a library raises whatever an argument makes it stumble over
            raise ValueError(f"encoder {self.choice} can't be built: {one_line(error)}") from error

    def imported(self, name: str) -> Any:
        """A module of the library; an ImportError says what to install where it is not there, or does not work."""
        try:
            make_torchvision_importable()
            return importlib.import_module(name)
        except (ImportError, RuntimeError) as error:  # a wheel built for another torch raises RuntimeError
            package = name.partition(".")[0]
            why = "" if isinstance(error, ModuleNotFoundError) else f" that works ({one_line(error)})"
            more = " torchvision" if package == "torchvision" else ""
            raise ImportError(
                f"encoder {self.choice!r} needs the package {package}{why}: pip install 'kvicreg[backbones]'{more}"
            ) from error

    def unavailable(self, error: Exception) -> OSError:
        """That published weights can't be had."""
        return OSError(
            f"--pretrained: the weights of {self.choice} could not be loaded ({one_line(error)}); where there is no "
            "network, bring them as a file and pass --init FILE"
        )


@dataclass(frozen=True, kw_only=True)
class PooledOptions(BridgeOptions):
    """What is read where a model's features can be pooled in several ways."""

    pooling: Literal["model", "token", "avg"] = option(
        "model", "Features: as the model means it, its class token, or the mean over all places."
    )


def _literal(value: ast.expr) -> Any:
    return value.id if isinstance(value, ast.Name) else ast.literal_eval(value)


def check_patches(choice: str, image_size: int, patch_size: Any) -> None:
    """Refuse images that a model can't cut into whole patches, naming the nearest size that it can."""
    patch = patch_size if isinstance(patch_size, int) else max(patch_size)
    if image_size % patch:
        nearest = max(patch, round(image_size / patch) * patch)
        raise ValueError(
            f"encoder {choice} cuts images into patches of {patch} pixels, and {image_size} is no multiple of that: "
            f"pass image_size={nearest} (--image-size {nearest})"
        )


def measured(encoder: nn.Module, choice: str, in_channels: int, image_size: int, usual_size: int = 224) -> nn.Module:
    """The encoder with the width of its features as `.feature_dim`, after one image has gone through it."""
    images = torch.zeros(1, in_channels, image_size, image_size)
    try:
        with torch.no_grad():
            features = encoder.eval()(images)
    except Exception as error:  # whatever a model makes of images that are too small for it
        raise ValueError(
            f"encoder {choice} can't take images of {image_size} pixels and {in_channels} channels "
            f"({one_line(error)}); its usual size is {usual_size}: --image-size {usual_size}"
        ) from error
    if not isinstance(features, torch.Tensor) or features.ndim != 2:
        shape = tuple(features.shape) if isinstance(features, torch.Tensor) else type(features).__name__
        raise ValueError(f"encoder {choice} must map images to features (b, width), and gives {shape}")
    cast(Any, encoder).feature_dim = features.shape[1]
    return encoder.train()
