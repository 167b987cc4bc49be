"""Labels of any kind become numbered classes with names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["number_labels"]


def number_labels(
    labels: Any, class_names: Sequence[str] | None = None, *, source: str = "labels"
) -> tuple[Tensor, list[str]]:
    """Class numbers, int64 (n,), and the names of the classes.

    Args:
        labels: n whole numbers or names, as a tensor, an array or a list; numbers may have gaps.
        class_names: the names of the classes 0, 1, ...: numbers are looked up among them, and names as well.
            Without them the classes are the distinct labels, sorted.
        source: what messages call the labels.

    Example:
        >>> number_labels(["dog", "cat", "dog"])
        (tensor([1, 0, 1]), ['cat', 'dog'])
    """
    values = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if values.ndim != 1:
        raise ValueError(f"{source}: expected one for each image, got an array of shape {values.shape}")
    if values.dtype.kind == "f" and bool(np.all(np.isfinite(values)) and np.all(values == np.round(values))):
        values = values.astype(np.int64)
    if values.dtype.kind in "biu":
        return _number_numbers(values, class_names, source)
    if values.dtype.kind not in "OSUT":
        raise ValueError(f"{source}: expected {len(values)} whole numbers or names, got {values.dtype}")
    return _number_names([_text(value, source) for value in values.tolist()], class_names, source)


def _number_numbers(values: np.ndarray, class_names: Sequence[str] | None, source: str) -> tuple[Tensor, list[str]]:
    if class_names is None:
        distinct, numbers = np.unique(values, return_inverse=True)
        return torch.from_numpy(numbers.astype(np.int64)), [str(value) for value in distinct.tolist()]
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if low < 0 or (len(values) and high >= len(class_names)):
        raise ValueError(f"{source}: expected 0 to {len(class_names) - 1}, got {low} to {high}")
    return torch.from_numpy(values.astype(np.int64)), list(class_names)


def _number_names(names: list[str], class_names: Sequence[str] | None, source: str) -> tuple[Tensor, list[str]]:
    classes = sorted(set(names), key=_as_sorted) if class_names is None else list(class_names)
    numbers = {name: number for number, name in enumerate(classes)}
    unknown = next((name for name in names if name not in numbers), None)
    if unknown is not None:
        some = ", ".join(map(repr, classes[:5]))
        raise ValueError(f"{source}: expected one of the {len(classes)} classes ({some}, ...), got {unknown!r}")
    return torch.tensor([numbers[name] for name in names], dtype=torch.int64), classes


def _as_sorted(name: str) -> tuple[int, int, str]:
    """Numbers first and by their value, then names."""
    is_number = name.isascii() and name.isdigit() and len(name) < 19
    return (0, int(name), name) if is_number else (1, 0, name)


def _text(value: object, source: str) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or value != value:
        raise ValueError(f"{source}: expected a label for every image or for none, got {value} for some")
    return str(value)
