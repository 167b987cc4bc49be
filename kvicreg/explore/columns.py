"""What points can be coloured and filtered by: classes, folders, clusters, scores, labels, columns of a CSV file."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.explore.collection import Collection
from kvicreg.explore.lists import image_column

__all__ = ["Column", "categories", "numeric", "source_columns", "table_columns"]

MOST_CATEGORIES = 1000


@dataclass(frozen=True)
class Column:
    """A value for every image: a number, or the number of a category; not a number where there is none.

    Attributes:
        title: what people see.
        values: gives float32 (n,).
        names: gives the names of the categories, or None for a number.
    """

    title: str
    values: Callable[[], np.ndarray]
    names: Callable[[], list[str]] | None = None

    def describe(self, key: str) -> dict[str, Any]:
        """What the page is told of it."""
        return {"key": key, "title": self.title, "names": None if self.names is None else self.names()}


def categories(title: str, texts: Sequence[str | None]) -> Column:
    """A column of texts; the largest categories first, and beyond a thousand as one."""
    counts = Counter(text for text in texts if text is not None)
    names = sorted(counts, key=lambda name: (-counts[name], name))
    if len(names) > MOST_CATEGORIES:
        names = [*names[: MOST_CATEGORIES - 1], "others"]
    numbers = {name: number for number, name in enumerate(names)}
    last = len(names) - 1
    values = np.array([np.nan if t is None else numbers.get(t, last) for t in texts], dtype=np.float32)
    return Column(title, lambda: values, lambda: names)


def numeric(title: str, values: np.ndarray) -> Column:
    """A column of numbers that are known."""
    return Column(title, lambda: values)


def source_columns(images: Collection) -> dict[str, Column]:
    """The classes and the folders of the source, where it has them."""
    columns: dict[str, Column] = {}
    labels, names = images.data.labels, images.data.class_names
    if labels is not None and names is not None:
        columns["class"] = categories("class", [names[label] for label in labels.tolist()])
    if images.data.paths is not None:
        folders = [os.path.dirname(name) or "." for name in images.names]
        if len({*folders}) > 1:
            columns["folder"] = categories("folder", folders)
    return columns


def table_columns(images: Collection, table: Path) -> dict[str, Column]:
    """The columns of a CSV file, whose column `image` (from its folder on) or `index` says which image a row is of."""
    header, name_of = image_column(images.data, table)
    with open(table, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        fields = list(reader.fieldnames or ())
        if header not in fields:
            raise ValueError(f"{table}: expected a column {header!r}, got {', '.join(fields) or 'none'}")
        rows = {os.path.normpath(row[header] or ""): row for row in reader}
    of_images = [rows.get(name_of(index)) for index in range(len(images))]
    if not any(of_images):
        raise ValueError(f"{table}: none of its rows names an image of the source; {header} is {name_of(0)!r} there")
    columns = {}
    for field in (field for field in fields if field != header):
        texts = [None if row is None else row[field] for row in of_images]
        numbers = [_number(text) for text in texts]
        is_number = all(number is not None for number, text in zip(numbers, texts, strict=True) if text)
        values = np.array([np.nan if number is None else number for number in numbers], dtype=np.float32)
        columns[f"table:{field}"] = numeric(field, values) if is_number else categories(field, texts)
    return columns


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
