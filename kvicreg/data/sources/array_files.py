"""Arrays in .npy, .npz and .pt files, the first memory-mapped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvicreg.data.arrays import ArrayData
from kvicreg.data.labels import number_labels
from kvicreg.data.sources.base import ReadOptions, Source, only_train
from kvicreg.data.stores import NoSplit
from kvicreg.storage import message_of

__all__ = ["Npy", "Npz", "TorchFile"]

_IMAGES, _LABELS = ("images", "x", "data", "image"), ("labels", "y", "targets", "label")
_PREFIXES = {"train": ("train",), "test": ("test", "val"), "val": ("val", "test"), "unlabelled": ("unlabelled",)}


class Npy(Source):
    """Images in a .npy file; labels, if any, beside it in NAME_labels.npy."""

    kind = "a .npy array"
    reads = frozenset({"intensity"})

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.is_file() and path.suffix.lower() == ".npy"

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> ArrayData:
        only_train(cls.kind, split)
        images = _loaded(path, mmap_mode="c")  # copy-on-write: torch asks for writable memory
        beside = path.with_name(f"{path.stem}_labels.npy")
        labels = _loaded(beside) if beside.is_file() else None
        return _array_data(path, images, labels, None, split, options)


class Npz(Source):
    """Images and labels in a .npz file: `images` and `labels`, or `train_images`, `x_test` and the like."""

    kind = "a .npz file"
    reads = frozenset({"intensity"})

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.is_file() and path.suffix.lower() == ".npz"

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> ArrayData:
        with _loaded(path) as arrays:
            return _from_members(path, arrays, split, options)


class TorchFile(Source):
    """Tensors in a .pt file: images alone, images and labels as a pair, or by name as in a .npz file."""

    kind = "a .pt file"
    reads = frozenset({"intensity"})

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.is_file() and path.suffix.lower() in (".pt", ".pth")

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> ArrayData:
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises whatever the damage makes it stumble over
            reason = message_of(error)
            raise ValueError(f"{path}: expected tensors that torch.save wrote, nothing else ({reason})") from error
        if isinstance(content, torch.Tensor):
            content = {"images": content}
        elif isinstance(content, list | tuple) and len(content) == 2:
            content = dict(zip(("images", "labels"), content, strict=True))
        if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
            raise ValueError(f"{path}: expected tensors: images, (images, labels) or a dictionary, got {type(content)}")
        return _from_members(path, content, split, options)


def _from_members(path: Path, arrays: Mapping[str, Any], split: str, options: ReadOptions) -> ArrayData:
    """The images and labels of a split among arrays by name."""
    names = {name.lower(): name for name in arrays}
    images, labels = (_member(names, kinds, split) for kinds in (_IMAGES, _LABELS))
    if images is None and split == "train" and len(names) == 1:
        (images,) = names.values()
    if images is None:
        raise NoSplit(
            f"{path}: expected an array called images{'' if split == 'train' else f' or {split}_images'} "
            f"for the split {split!r}; it has {', '.join(names.values()) or 'none'}"
        )
    every = [] if labels is None else [_member(names, _LABELS, "train") or labels, labels]
    try:
        values, *parts = [arrays[name] for name in (images, *every)]
    except Exception as error:  # as below
        raise ValueError(f"{path}: its arrays can't be read ({error})") from error
    if labels is None:
        return _array_data(path, values, None, None, split, options)
    numbers, classes = number_labels(
        np.concatenate([np.asarray(part) for part in parts]), source=f"{path}: labels"
    )  # together, so that splits agree
    return _array_data(path, values, numbers[len(parts[0]) :], classes, split, options)


def _member(names: dict[str, str], kinds: tuple[str, ...], split: str) -> str | None:
    """The array of a kind for a split: train_images, images_train, x_train or, for training, images."""
    wanted = [name for p in _PREFIXES[split] for k in kinds for name in (f"{p}_{k}", f"{k}_{p}")]
    return next((names[name] for name in (*wanted, *(kinds if split == "train" else ())) if name in names), None)


def _array_data(
    path: Path, images: Any, labels: Any, classes: list[str] | None, split: str, options: ReadOptions
) -> ArrayData:
    try:
        return ArrayData(images, labels, name=path.stem, split=split, class_names=classes, intensity=options.intensity)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _loaded(path: Path, mmap_mode: Any = None) -> Any:
    try:
        return np.load(path, allow_pickle=False, mmap_mode=mmap_mode)
    except Exception as error:  # numpy raises whatever the damage makes it stumble over
        raise ValueError(f"{path}: expected an array that numpy wrote ({error})") from error
