"""Which files make a data set: a folder of images, TinyImageNet's layout, a list file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from kvicreg.data.images import PathList

EXTENSIONS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
SPLIT_FOLDERS = {
    "train": ("train", "training"),
    "test": ("val", "test", "valid", "validation"),
    "unlabelled": ("unlabelled", "unlabeled"),
}


class Listing(NamedTuple):
    """Files, their labels and the labels' names (None where there are none)."""

    paths: Sequence[Path]
    labels: Tensor | None
    class_names: list[str] | None


def images_below(folder: Path) -> PathList:
    """Every image file below `folder`, sorted; hidden files and folders are left out, links are followed once."""
    paths: list[str] = []
    seen: set[tuple[int, int]] = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        place = os.stat(parent)
        if (place.st_dev, place.st_ino) in seen:  # a link back to where we have been
            folders[:] = []
            continue
        seen.add((place.st_dev, place.st_ino))
        paths += [os.path.join(parent, f) for f in files if not f.startswith(".") and _is_image_name(f)]
    paths.sort(key=lambda text: text.replace(os.sep, "\0"))  # folder by folder, as `Path` sorts
    return PathList(paths)


def split_folder(folder: Path, split: str) -> Path:
    """The subfolder of a split; `folder` itself for "train" when it has none."""
    for name in SPLIT_FOLDERS[split]:
        if (folder / name).is_dir():
            return folder / name
    if split == "train" and not any((folder / name).is_dir() for name in SPLIT_FOLDERS["test"]):
        return folder
    wanted = " or ".join(f"{name}/" for name in SPLIT_FOLDERS[split][:2])
    raise ValueError(f"split: {folder} has no {split!r} split; put it into a subfolder {wanted}")


def list_folder(folder: Path, split: str, classes: Sequence[str] | None = None) -> Listing:
    """A folder of images; its first-level subfolders are the classes, unless images lie beside them.

    Args:
        classes: the only class folders to read, in this order of labels; by default those of the training split.
    """
    if (folder / "wnids.txt").is_file() and (folder / "val" / "val_annotations.txt").is_file():
        return list_tiny_imagenet(folder, split)
    place = split_folder(folder, split)
    if classes is None:
        has_training = any((folder / name).is_dir() for name in SPLIT_FOLDERS["train"])
        classes = _class_folders(split_folder(folder, "train") if has_training else place)
        extra = sorted(set(_class_folders(place)) - set(classes)) if split == "test" else []
        if extra:
            raise ValueError(f"{place}: these classes are not among those of training: {', '.join(extra[:3])}")
    if not classes or split == "unlabelled" or any(_is_image(p) for p in place.iterdir()):
        paths = images_below(place)
        labels, names = None, None
    else:
        members = [images_below(place / name) if (place / name).is_dir() else PathList([]) for name in classes]
        paths = PathList(text for files in members for text in files.texts)
        labels = torch.repeat_interleave(torch.arange(len(classes)), torch.tensor([len(files) for files in members]))
        names = list(classes)
    if not paths:
        raise ValueError(f"{place}: there is no image in it (looked for {', '.join(sorted(EXTENSIONS))})")
    return Listing(paths, labels, names)


def list_tiny_imagenet(folder: Path, split: str) -> Listing:
    """TinyImageNet as published: train/<wnid>/images/*.JPEG, val/images/*.JPEG with val_annotations.txt.

    The official test images have no labels: "test" is the official validation set, "unlabelled" is test/images.
    """
    wnids = (folder / "wnids.txt").read_text().split()
    words = dict(line.split("\t", 1) for line in _lines(folder / "words.txt") if "\t" in line)
    names = [words.get(wnid, wnid).split(",")[0].strip() for wnid in wnids]
    numbers = {wnid: k for k, wnid in enumerate(wnids)}
    if split == "unlabelled":
        paths = images_below(folder / "test")
        if not paths:
            raise ValueError(f"split: {folder} has no unlabelled images (test/images)")
        return Listing(paths, None, None)
    if split == "train":
        pairs = [(path, wnid) for wnid in wnids for path in images_below(folder / "train" / wnid)]
    else:
        annotations = [line.split("\t") for line in _lines(folder / "val" / "val_annotations.txt")]
        pairs = sorted((folder / "val" / "images" / file, wnid) for file, wnid, *_ in annotations if wnid in numbers)
    if not pairs:
        raise ValueError(f"{folder}: there is no image in its {split!r} split")
    return Listing([path for path, _ in pairs], torch.tensor([numbers[wnid] for _, wnid in pairs]), names)


def list_file(path: Path) -> Listing:
    """A text file with an image per line, relative to the file's folder, and optionally a tab or comma and a label.

    Labels are whole numbers or names; they are numbered in sorted order. Lines that start with # are comments.
    """
    paths, labels = [], []
    for line in _lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        name, label = line.strip(), ""
        if not _is_image_name(name):
            name, _, label = name.rpartition("\t" if "\t" in name else ",")
        if not name:
            raise ValueError(f"{path}: expected 'image' or 'image,label' on each line, got {line!r}")
        paths.append(path.parent / name.strip())
        labels.append(label.strip())
    if not paths:
        raise ValueError(f"{path}: there is no image in the list")
    if not all(labels):
        if any(labels):
            raise ValueError(f"{path}: some lines have a label and some have none; give all or none")
        return Listing(paths, None, None)
    names = sorted(set(labels), key=lambda label: (0, int(label), "") if label.isdigit() else (1, 0, label))
    numbers = {name: k for k, name in enumerate(names)}
    return Listing(paths, torch.tensor([numbers[label] for label in labels]), names)


def _class_folders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _is_image(path: Path) -> bool:
    return _is_image_name(path.name) and not path.name.startswith(".") and path.is_file()


def _is_image_name(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in EXTENSIONS


def _lines(path: Path) -> Iterable[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8, got other bytes") from error
