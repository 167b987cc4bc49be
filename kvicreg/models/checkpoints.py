"""Checkpoints of anybody's: read without running code, and brought to the names of weights that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kvicreg.models.weights import read_safetensors

__all__ = ["read_checkpoint"]

INSIDE = ("state_dict", "teacher", "model", "model_state_dict", "encoder", "module", "student")
"""Where trainings put their weights beside other things; of a teacher and its student, the teacher is what is used."""


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """The weights in a file by name: safetensors, or a state dict that torch reads with ``weights_only=True``."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}")
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch, zipfile and pickle raise whatever a file that is none makes them stumble over
        if "Unsupported global" in str(error):
            raise ValueError(
                f"{path} holds Python objects, which could run code, and is not read. Where you trust it, load it once "
                "with torch.load(..., weights_only=False) and save its state dict alone"
            ) from error
        raise ValueError(f"{path} is no checkpoint that torch reads without running code") from error
    weights = _weights_in(content)
    if not weights:
        raise ValueError(f"{path} holds no weights by name, but {_summary(content)}")
    return weights


def _weights_in(content: Any) -> dict[str, Tensor]:
    """The tensors of a state dict, or of the first that is one among what lies where trainings put theirs."""
    if not isinstance(content, Mapping):
        return {}
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    inner = [_weights_in(content[name]) for name in INSIDE if isinstance(content.get(name), Mapping)]
    return tensors or next((weights for weights in inner if weights), {})


def _summary(content: Any) -> str:
    """What a file holds instead of weights, in words."""
    if isinstance(content, Mapping):
        return f"a table of {', '.join(map(str, [*content][:5])) or 'nothing'}"
    return f"a {type(content).__name__}"
