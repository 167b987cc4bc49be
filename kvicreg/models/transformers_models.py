"""Encoders of transformers: ``hf:NAME``, where NAME is of the hub, of a folder, or a kind of model such as dinov2."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from kvicreg.models.bridges import PooledOptions, check_patches, measured
from kvicreg.models.encoder import Normalization
from kvicreg.models.weights import one_line
from kvicreg.options import option

__all__ = ["TransformersEncoder", "TransformersOptions"]

DERIVED = ("out_features", "out_indices", "stage_names", "architectures", "transformers_version")
"""What a config says that follows from the rest, or does not matter here."""


@dataclass(frozen=True, kw_only=True)
class TransformersOptions(PooledOptions, name="hf"):
    """A model of transformers."""

    model: str = option("", "Name on the hub, folder, or kind of model.", argument=True)
    library_config: str | None = option(None, "The model's config.json as a text; by default that of its name.")

    def library(self) -> Any:
        """The package transformers."""
        return self.imported("transformers")

    def resolved(self, image_size: int) -> TransformersOptions:
        """With the config written out, so that no network is needed to build the model again."""
        if self.library_config is not None:
            return self
        values = json.loads(self._config().to_json_string(use_diff=True))
        return replace(self, library_config=json.dumps({k: v for k, v in values.items() if k not in DERIVED}))

    def make(self, in_channels: int, image_size: int, norm: str) -> nn.Module:
        config = self._config()
        usual = getattr(config, "image_size", 224)
        for name, value in {"image_size": image_size, "num_channels": in_channels}.items():
            if hasattr(config, name):
                setattr(config, name, value)
        if isinstance(getattr(config, "patch_size", None), int | list | tuple):
            check_patches(self.choice, image_size, config.patch_size)
        model = self.constructed(lambda **_: self.library().AutoModel.from_config(config))
        usual = usual if isinstance(usual, int) else 224
        return measured(TransformersEncoder(model, self.pooling), self.choice, in_channels, image_size, usual)

    def published(self) -> Mapping[str, Tensor]:
        try:
            model = self.library().AutoModel.from_pretrained(self.model)
        except ImportError:
            raise
        except Exception as error:  # whatever the network, the hub or the library comes up with
            raise self.unavailable(error) from error
        return dict(model.state_dict())

    def normalization(self) -> Normalization | None:
        """Those of the image processor that is published beside the model."""
        try:
            about, _ = self.library().ImageProcessingMixin.get_image_processor_dict(self.model)
            return Normalization(tuple(about["image_mean"]), tuple(about["image_std"]))
        except ImportError:
            raise
        except Exception:  # no processor there, or one that says nothing
            return None

    def _config(self) -> Any:
        """The model's config, with the changes of `model_args`."""
        auto, kinds = self.library().AutoConfig, self.library().CONFIG_MAPPING
        try:
            if self.library_config is not None:
                return auto.for_model(**{**json.loads(self.library_config), **self.arguments()})
            if self.model in kinds:
                return auto.for_model(self.model, **self.arguments())
            return auto.from_pretrained(self.model, **self.arguments())
        except (ValueError, TypeError) as error:
            raise ValueError(f"encoder {self.choice}: {one_line(error)}") from error
        except OSError as error:
            raise OSError(
                f"encoder {self.choice}: {one_line(error)}; a folder with config.json, or a kind of model such as "
                "hf:vit or hf:dinov2, needs no network"
            ) from error


class TransformersEncoder(nn.Module):
    """A model of transformers as an encoder: images (b, c, s, s) to features (b, q).

    Features are the model's pooled output; of a model without one, the class token after the last normalization. The
    dense layer that some models put on their class token belongs to a classifier, and is taken away.

    Args:
        model: the model, without a head.
        pooling: "model", "token" for the class token, or "avg" for the mean of all other places.
    """

    def __init__(self, model: nn.Module, pooling: str = "model") -> None:
        super().__init__()
        if isinstance(getattr(getattr(model, "pooler", None), "dense", None), nn.Linear):
            model.pooler = None  # type: ignore[assignment]
        self.model, self.pooling = model, pooling
        takes = inspect.signature(model.forward).parameters
        self.more = {"interpolate_pos_encoding": True} if "interpolate_pos_encoding" in takes else {}

    def forward(self, images: Tensor) -> Tensor:
        output = self.model(pixel_values=images, **self.more)
        pooled, hidden = getattr(output, "pooler_output", None), output.last_hidden_state
        if self.pooling == "model" and pooled is not None:
            return pooled.flatten(1)
        if hidden.ndim == 4:  # maps (b, c, h, w)
            return hidden.mean((2, 3))
        if self.pooling == "avg":
            others = 1 + int(getattr(self.model.config, "num_register_tokens", 0) or 0)
            return hidden[:, others:].mean(1)
        return hidden[:, 0]

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Compute activations again in the backward pass, as timm's models call it."""
        if not getattr(self.model, "supports_gradient_checkpointing", False):
            raise ValueError(f"{type(self.model).__name__} of transformers can't compute activations again")
        self.model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
