"""Weights on disk: safetensors, never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from kvicreg.storage import write_atomically

__all__ = ["fill", "load_weights", "one_line", "save_weights", "serialized"]


def save_weights(module: nn.Module, path: Path) -> None:
    """Write a module's weights and buffers as safetensors."""
    write_atomically(path, serialized(module.state_dict()))


def serialized(weights: Mapping[str, Tensor]) -> bytes:
    """Weights as the content of a safetensors file."""
    from safetensors.torch import save

    return save({name: value.detach().cpu().contiguous() for name, value in weights.items()})


def load_weights(module: nn.Module, path: str | Path) -> None:
    """Fill a module from a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}")
    try:
        weights = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({one_line(error)}); train the run again") from error
    fill(module, weights, path)


def fill(module: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Fill a module with weights that come from `path`."""
    try:
        module.load_state_dict(weights)
    except (RuntimeError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} does not fit the encoder: {' '.join(str(error).split())}") from error


def one_line(error: Exception) -> str:
    """An error's kind and message, short enough for a sentence."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
