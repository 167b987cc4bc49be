"""Lists of images as CSV files, and the command that copies or links what a list names. Nothing is ever deleted."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from kvicreg.data import ImageData
from kvicreg.storage import write_atomically

__all__ = ["collect", "image_column", "table_text", "write_table"]


def image_column(data: ImageData, place: Path) -> tuple[str, Callable[[int], str]]:
    """The header of the column that names images in a file at `place`, and the name of each there.

    Files are named from the folder of the list on, so that `train`, `evaluate` and `collect` find them.
    """
    paths = data.paths
    if paths is None:
        return "index", str
    folder = place.resolve().parent
    return "image", lambda index: os.path.relpath(os.path.abspath(paths[index]), folder)


def table_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return text.getvalue()


def write_table(
    path: str | Path, data: ImageData, columns: Sequence[str], rows: Iterable[tuple[int, Sequence[Any]]]
) -> int:
    """Write a CSV file with an image per row, given as its index and the cells behind its name; how many rows.

    Example:
        >>> write_table("odd.csv", load("mnist-small"), ["score"], [(3, [0.9]), (5, [0.8])])
        2
    """
    path = Path(path)
    name, name_of = image_column(data, path)
    table = [(name_of(index), *cells) for index, cells in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, table_text([name, *columns], table).encode())
    return len(table)


def collect(table: str | Path, to: str | Path, *, link: bool = False) -> tuple[int, list[str]]:
    """Copy, or link, every file that a list names into a folder; the list's own files are left as they are.

    A file keeps its name, behind a number where two have the same; a column `group` or `label` becomes a subfolder.

    Args:
        table: CSV file with a column `image`, relative to its folder.
        to: folder, which must be absent or empty.
        link: make symbolic links in place of copies.

    Returns:
        How many files were copied or linked, and those that are not there.

    Example:
        >>> from PIL import Image
        >>> Image.new("RGB", (8, 8)).save("a.png")
        >>> _ = open("list.csv", "w").write("image\\na.png\\n")
        >>> collect("list.csv", "chosen")
        (1, [])
    """
    table, to = Path(table), Path(to)
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or "image" not in rows[0]:
        raise ValueError(f"{table}: expected a column 'image' with files; a list of array data names none")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ValueError(f"to: {to} is there and not empty; name another folder")
    count, absent, taken = 0, [], set()
    for row in rows:
        path = Path(os.path.abspath(table.parent / row["image"]))
        if not path.is_file():
            absent.append(row["image"])
            continue
        folder = to / _folder_name(row.get("label") or row.get("group") or "")
        target, number = folder / path.name, 1
        while target in taken:
            number += 1
            target = folder / f"{path.stem}-{number}{path.suffix}"
        taken.add(target)
        folder.mkdir(parents=True, exist_ok=True)
        if link:
            target.symlink_to(path)
        else:
            shutil.copy2(path, target)
        count += 1
    return count, absent


def _folder_name(text: str) -> str:
    """A label as the name of a folder that lies where it should."""
    name = "".join("_" if c in "/\\:\0" or not c.isprintable() else c for c in text).strip()
    return f"_{name}" if name.startswith(".") else name
