"""Archives of arrays: written atomically, and read with a look at whether they are what they should be."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.storage import read_arrays, write_atomically

__all__ = ["checked_arrays", "write_arrays"]


def write_arrays(path: Path, *, compressed: bool = True, **arrays: Any) -> None:
    """Write arrays by name."""
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    write_atomically(path, file.getvalue())


def checked_arrays(path: Path, dimensions: Mapping[str, int]) -> dict[str, np.ndarray] | None:
    """Arrays of numbers with so many dimensions and equally many rows; None where there is no file, or no row."""
    if not path.is_file():
        return None
    arrays = read_arrays(path)
    missing = [name for name in dimensions if name not in arrays]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}: it was not written by kvicreg")
    rows = len(np.atleast_1d(arrays[next(iter(dimensions))]))
    for name, count in dimensions.items():
        array = arrays[name]
        if array.dtype.kind not in "biuf" or array.ndim != count or len(array) != rows:
            shape = f"{array.dtype} {array.shape}"
            raise ValueError(f"{path} is damaged: {name} should be {count}-dimensional numbers, got {shape}")
    return arrays if all(len(arrays[name]) for name in dimensions) else None
