"""Which columns of a table have the images and the labels, by their names."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["find_column", "image_column", "label_column"]

_IMAGES = (
    "image", "images", "img", "image_path", "img_path", "path", "file", "filename", "file_name", "filepath",
    "file_path", "image_file", "jpg", "png", "bytes",
)  # fmt: skip
_LABELS = ("label", "labels", "class", "class_name", "target", "category", "y", "fine_label")


def image_column(columns: Sequence[str], wanted: str | None, table: object) -> str:
    """The column of the images: the one that is wanted, or the first that is called as one."""
    column = find_column(columns, wanted, _IMAGES, "image_column", table)
    if column is None:
        raise ValueError(f"image_column: no column of {table} is called image or path; it has {', '.join(columns)}")
    return column


def label_column(columns: Sequence[str], wanted: str | None, table: object) -> str | None:
    """The column of the labels: the one that is wanted, or the first that is called as one, or None."""
    return find_column(columns, wanted, _LABELS, "label_column", table)


def find_column(
    columns: Sequence[str], wanted: str | None, usual: Sequence[str], setting: str, table: object
) -> str | None:
    """A column by its name, in capitals or not where it is one of the usual ones."""
    if wanted is not None:
        if wanted not in columns:
            raise ValueError(f"{setting}: {table} has no column {wanted!r}; it has {', '.join(columns)}")
        return wanted
    by_name = {column.strip().lower(): column for column in reversed(columns)}
    return next((by_name[name] for name in usual if name in by_name), None)
