"""Weights on disk: safetensors, never pickle."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from kvicreg.storage import write_atomically

__all__ = ["load_weights", "one_line", "save_weights"]


def save_weights(module: nn.Module, path: Path) -> None:
    """Write a module's weights and buffers as safetensors."""
    from safetensors.torch import save

    write_atomically(path, save({k: v.detach().cpu().contiguous() for k, v in module.state_dict().items()}))


def load_weights(module: nn.Module, path: str | Path) -> None:
    """Fill a module from a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there are no weights at {path}")
    try:
        module.load_state_dict(load_file(path))
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({one_line(error)}); train the run again") from error
    except RuntimeError as error:
        raise ValueError(f"{path} does not fit the encoder: {' '.join(str(error).split())}") from error


def one_line(error: Exception) -> str:
    """An error's kind and message, short enough for a sentence."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
