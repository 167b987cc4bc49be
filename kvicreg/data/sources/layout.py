"""What the folders of images mean: splits and classes, from the images' names alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from kvicreg.data.stores import NoSplit
from kvicreg.storage import counted

__all__ = ["EXTENSIONS", "SPLIT_FOLDERS", "Classes", "choose_split", "find_classes", "is_image_name", "left_out"]

EXTENSIONS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
_VALIDATION = ("val", "valid", "validation")
SPLIT_FOLDERS = {
    "train": ("train", "training"),
    "val": (*_VALIDATION, "test"),
    "test": ("test", *_VALIDATION),
    "unlabelled": ("unlabelled", "unlabeled"),
}


class Classes(NamedTuple):
    """The class of each image, and how they were told from the folders."""

    labels: Tensor | None
    names: list[str] | None
    note: str


def is_image_name(name: str) -> bool:
    """Whether a file is called as an image that we read."""
    return os.path.splitext(name)[1].lower() in EXTENSIONS


def left_out(names: Iterable[str]) -> tuple[str, ...]:
    """A sentence about the files that are no images that we read, by their endings; none for none."""
    endings = Counter(os.path.splitext(name)[1].lower() or "without an ending" for name in names)
    if not endings:
        return ()
    ordered = sorted(endings.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{count} {ending}" for ending, count in ordered[:5])
    more = f" and {len(endings) - 5} other kinds" if len(endings) > 5 else ""
    count = endings.total()
    return (f"{count:,} file{'s are' if count > 1 else ' is'} left out, no image that is read: {listed}{more}",)


def choose_split(folders: Collection[str], labelled: Collection[str], split: str, place: object) -> str:
    """The folder of a split among `folders`, "" for all of them; where there are several, one of those with classes."""
    candidates = [name for name in SPLIT_FOLDERS[split] if name in folders]
    if candidates:
        return next((name for name in candidates if name in labelled), candidates[0])
    if split == "train" and not any(name in folders for name in SPLIT_FOLDERS["test"]):
        return ""
    usual = ("val", "test") if split in ("val", "test") else SPLIT_FOLDERS[split]
    wanted = " or ".join(f"{name}/" for name in usual)
    raise NoSplit(f"split: {place} has no {split!r} split; put it into a subfolder {wanted}")


def find_classes(
    names: Sequence[str], training: Sequence[str] | None, level: str, place: object, split: str = "train"
) -> Classes:
    """The class of each image from its folders.

    Args:
        names: of the images, from the split's folder on, with / between folders.
        training: names of the training images, whose classes these are; None when these are they.
        level: auto, none, last, or a number from 1.
        place: of the images, for messages.
    """
    reference = names if training is None else training
    chosen = "none" if split == "unlabelled" else _choose_level(reference, level, place)
    if chosen == "none" or (level == "auto" and any("/" not in name for name in names)):
        return Classes(None, None, "no classes: folders are not taken as labels (--class-level chooses)")
    of_image = [_class_of(name, chosen, place) for name in names]
    classes = sorted(set(of_image) if training is None else {_class_of(name, chosen, place) for name in training})
    numbers = {name: number for number, name in enumerate(classes)}
    extra = sorted(set(of_image) - set(numbers))
    if extra:
        raise ValueError(f"{place}: these classes are not among those of training: {', '.join(extra[:3])}")
    which = "the last level" if chosen == "last" else f"level {chosen}"
    some = ", ".join(classes[:4]) + (", ..." if len(classes) > 4 else "")
    note = f"{counted(len(classes), 'class')}, the folders of {which}: {some} (--class-level chooses another)"
    return Classes(torch.tensor([numbers[name] for name in of_image], dtype=torch.int64), classes, note)


def _class_of(name: str, level: str, place: object) -> str:
    folders = name.split("/")[:-1]
    number = len(folders) if level == "last" else int(level)
    if not 0 < number <= len(folders):
        raise ValueError(f"class_level: {name} in {place} has {len(folders)} folders above it, expected level {level}")
    return folders[number - 1]


def _choose_level(names: Sequence[str], level: str, place: object) -> str:
    """The level that `auto` takes: the first; or, where all images are in one folder, the first that tells them apart.

    If below that one folder the same names come again in different folders, they are the classes: 2023/jan/cat.
    """
    if level != "auto":
        return level
    parents = sorted({name.rpartition("/")[0] for name in names})
    if "" in parents:
        return "none"
    folders = [parent.split("/") for parent in parents]
    depth = min(map(len, folders))
    first = next((k for k in range(depth) if len({parts[k] for parts in folders}) > 1), 0)
    last_names = {parts[-1] for parts in folders}
    is_even = depth == max(map(len, folders))
    if first > 0 and is_even and depth > first + 1 and 1 < len(last_names) <= len(folders) // 2:
        return "last"
    return str(first + 1)
