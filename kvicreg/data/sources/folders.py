"""A folder of images; subfolders are splits and classes. TinyImageNet's layout is known."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from kvicreg.data.images import PathList
from kvicreg.data.sources.base import PIXELS, Listing, ReadOptions, Source
from kvicreg.data.sources.layout import EXTENSIONS, choose_split, find_classes, is_image_name, left_out
from kvicreg.data.stores import NoSplit

__all__ = ["Folder", "images_below", "list_folder"]


class Folder(Source):
    """A folder of image files."""

    kind = "a folder of images"
    reads = PIXELS | {"class_level"}
    is_fallback = True

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.is_dir()

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> Listing:
        return list_folder(path, split, class_level=options.class_level)


def images_below(folder: Path, others: list[str] | None = None) -> PathList:
    """Every image file below `folder`, sorted; hidden files and folders are left out, links are followed once.

    Args:
        others: gets the names of the other files.
    """
    paths: list[str] = []
    seen: set[tuple[int, int]] = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        place = os.stat(parent)
        if (place.st_dev, place.st_ino) in seen:  # a link back to where we have been
            folders[:] = []
            continue
        seen.add((place.st_dev, place.st_ino))
        for file in files:
            if not file.startswith("."):
                if is_image_name(file):
                    paths.append(os.path.join(parent, file))
                elif others is not None:
                    others.append(file)
    paths.sort(key=lambda text: text.replace(os.sep, "\0"))  # folder by folder, as `Path` sorts
    return PathList(paths)


def split_folder(folder: Path, split: str) -> Path:
    """The subfolder of a split; `folder` itself for "train" when it has none."""
    folders = _folders(folder)
    return folder / choose_split(folders, [name for name in folders if _folders(folder / name)], split, folder)


def list_folder(
    folder: Path, split: str, classes: Sequence[str] | None = None, *, class_level: str = "auto"
) -> Listing:
    """A folder of images; its first-level subfolders are the classes, unless images lie beside them.

    Args:
        classes: the only class folders to read, in this order of labels; by default those of the training split.
        class_level: which folders are the classes.
    """
    if (folder / "wnids.txt").is_file() and (folder / "val" / "val_annotations.txt").is_file():
        return list_tiny_imagenet(folder, split)
    place = split_folder(folder, split)
    if classes is not None:
        return _list_classes(place, classes)
    others: list[str] = []
    paths = images_below(place, others)
    if not paths:
        note = "".join(f"; {note}" for note in left_out(others))
        raise NoSplit(f"{place}: there is no image in it (looked for {', '.join(sorted(EXTENSIONS))}){note}")
    training = None
    if split != "train" and any(name in _folders(folder) for name in ("train", "training")):
        training_place = split_folder(folder, "train")
        training = _names(images_below(training_place), training_place)
    labels, names, note = find_classes(_names(paths, place), training, class_level, place, split)
    return Listing(paths, labels, names, notes=(note, *left_out(others)))


def _list_classes(place: Path, classes: Sequence[str]) -> Listing:
    """The images of some class folders, in the order in which they are given."""
    members = [images_below(place / name) if (place / name).is_dir() else PathList([]) for name in classes]
    labels = torch.repeat_interleave(torch.arange(len(classes)), torch.tensor([len(files) for files in members]))
    if not len(labels):
        raise NoSplit(f"{place}: there is no image in it of the classes {', '.join(classes[:3])}, ...")
    return Listing(PathList(text for files in members for text in files.texts), labels, list(classes))


def list_tiny_imagenet(folder: Path, split: str) -> Listing:
    """TinyImageNet as published: train/<wnid>/images/*.JPEG, val/images/*.JPEG with val_annotations.txt.

    The official test images have no labels: "test" is the official validation set, "unlabelled" is test/images.
    """
    wnids = (folder / "wnids.txt").read_text().split()
    words = dict(line.split("\t", 1) for line in read_lines(folder / "words.txt") if "\t" in line)
    names = [words.get(wnid, wnid).split(",")[0].strip() for wnid in wnids]
    numbers = {wnid: k for k, wnid in enumerate(wnids)}
    if split == "unlabelled":
        paths = images_below(folder / "test")
        if not paths:
            raise NoSplit(f"split: {folder} has no unlabelled images (test/images)")
        return Listing(paths, None, None)
    if split == "train":
        pairs = [(path, wnid) for wnid in wnids for path in images_below(folder / "train" / wnid)]
    else:
        annotations = [line.split("\t") for line in read_lines(folder / "val" / "val_annotations.txt")]
        pairs = sorted((folder / "val" / "images" / file, wnid) for file, wnid, *_ in annotations if wnid in numbers)
    if not pairs:
        raise NoSplit(f"{folder}: there is no image in its {split!r} split")
    return Listing([path for path, _ in pairs], torch.tensor([numbers[wnid] for _, wnid in pairs]), names)


def read_lines(path: Path) -> Iterable[str]:
    """The lines of a text file; none of a file that is not there."""
    try:
        return path.read_text(encoding="utf-8-sig").splitlines() if path.is_file() else []
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8, got other bytes") from error


def _names(paths: PathList, place: Path) -> list[str]:
    """Names from `place` on, with / between folders."""
    start = len(str(place)) + 1 if str(place) != "." else 0
    return [text[start:].replace(os.sep, "/") for text in paths.texts]


def _folders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
