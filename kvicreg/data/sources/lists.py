"""A list file: an image per line, with or without a label."""

from __future__ import annotations

from pathlib import Path

from kvicreg.data.labels import number_labels
from kvicreg.data.sources.base import Listing, ReadOptions, Source, only_train
from kvicreg.data.sources.folders import read_lines
from kvicreg.data.sources.layout import is_image_name

__all__ = ["ListFile", "list_file"]


class ListFile(Source):
    """A text file that names image files."""

    kind = "a list file"
    is_fallback = True

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.is_file()

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> Listing:
        only_train(cls.kind, split, "a list")
        return list_file(path)


def list_file(path: Path) -> Listing:
    """A text file with an image per line, relative to the file's folder, and optionally a tab or comma and a label.

    Labels are whole numbers or names; they are numbered in sorted order. Lines that start with # are comments.
    """
    paths, labels = [], []
    for line in read_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        name, label = line.strip(), ""
        if not is_image_name(name):
            name, _, label = name.rpartition("\t" if "\t" in name else ",")
        if not name:
            raise ValueError(f"{path}: expected 'image' or 'image,label' on each line, got {line[:200]!r}")
        paths.append(path.parent / name.strip())
        labels.append(label.strip())
    return listed(path, paths, labels)


def listed(path: Path, paths: list[Path], labels: list[str]) -> Listing:
    """The listing of a file that names images and, for all or none of them, a label."""
    if not paths:
        raise ValueError(f"{path}: there is no image in the list")
    if not all(labels):
        if any(labels):
            raise ValueError(f"{path}: some lines have a label and some have none; give all or none")
        return Listing(paths, None, None)
    return Listing(paths, *number_labels(labels, source=f"{path}: labels"))
