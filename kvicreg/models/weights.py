"""Weights on disk: safetensors, never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from kvicreg.storage import message_of, write_atomically

__all__ = ["fill", "one_line", "read_safetensors", "save_weights", "serialized"]


def save_weights(module: nn.Module, path: Path) -> None:
    """Write a module's weights and buffers as safetensors."""
    write_atomically(path, serialized(module.state_dict()))


def serialized(weights: Mapping[str, Tensor]) -> bytes:
    """Weights as the content of a safetensors file."""
    from safetensors.torch import save

    return save({name: value.detach().cpu().contiguous() for name, value in weights.items()})


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{path} is damaged ({one_line(error)}); train the run again, or load the file again"
        ) from error


def fill(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Fill a module with weights that come from `path`."""
    try:
        module.load_state_dict(weights)
    except (RuntimeError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} does not fit the encoder: {message_of(error)}") from error


def one_line(error: Exception) -> str:
    """An error's kind and message, short enough for a sentence."""
    return f"{type(error).__name__}: {message_of(error)}"
