"""What tables of images share: which columns they have, and images by file and row, a part of a file at a time."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kvicreg.data.images import PathList
from kvicreg.data.labels import number_labels
from kvicreg.data.sources.base import Listing, ReadOptions
from kvicreg.data.sources.columns import image_column, label_column
from kvicreg.data.sources.layout import SPLIT_FOLDERS
from kvicreg.data.stores import NoSplit

__all__ = ["Table", "TableReader", "features_of", "import_arrow", "list_tables", "tables_of_split"]

_CACHE = 1 << 27  # bytes of unpacked parts of tables that a process keeps


def import_arrow(kind: str) -> None:
    """Raise a sentence that names the extra where pyarrow is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{kind} is read by pyarrow: pip install 'kvicreg[sources]'") from error


class Table(ABC):
    """A file with a table in it.

    Attributes:
        schema: the names and types of its columns, as arrow's.
        starts: the number of the first row of each of its parts, and of all rows at the end.
    """

    path: Path
    schema: Any
    starts: list[int]

    @abstractmethod
    def __init__(self, path: Path) -> None: ...

    @abstractmethod
    def part(self, number: int, column: str) -> Any:
        """A column in one of the parts, as an arrow array; a field of a column is COLUMN.FIELD."""

    def __len__(self) -> int:
        return self.starts[-1]

    def values(self, column: str) -> list[Any]:
        """A whole column."""
        return [value for k in range(len(self.starts) - 1) for value in self.part(k, column).to_pylist()]


class TableReader:
    """The bytes of the image at FILE/ROW. Each process opens files anew and keeps the parts that it has read last."""

    def __init__(self, kind: type[Table], column: str) -> None:
        self.kind, self.column = kind, column
        self._forget()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.column)

    def __call__(self, path: Path) -> bytes:
        if self._process != os.getpid():  # what is open in the parent process is not to be shared
            self._forget()
        file, row = path.parent, int(path.name)
        if file not in self._tables:
            self._tables[file] = self.kind(file)
        number = bisect_right(self._tables[file].starts, row) - 1
        cell = self._part(file, number)[row - self._tables[file].starts[number]].as_py()
        content = cell.get("bytes") if isinstance(cell, dict) else cell
        if not content:
            raise ValueError("its row has no image")
        return bytes(content)

    def _forget(self) -> None:
        self._process = os.getpid()
        self._tables: dict[Path, Table] = {}
        self._parts: OrderedDict[tuple[Path, int], Any] = OrderedDict()

    def _part(self, file: Path, number: int) -> Any:
        key = (file, number)
        if key not in self._parts:
            self._parts[key] = self._tables[file].part(number, self.column)
            while len(self._parts) > 1 and sum(part.nbytes for part in self._parts.values()) > _CACHE:
                self._parts.popitem(last=False)
        self._parts.move_to_end(key)
        return self._parts[key]


def list_tables(
    place: Path, tables: Sequence[Table], chosen: Sequence[Table], features: dict[str, Any], options: ReadOptions
) -> Listing:
    """The images of the tables `chosen` among all `tables` of a source, whose labels are numbered together.

    Args:
        features: what Hugging Face's `datasets` says of the columns, such as the names of the classes.
    """
    schema = tables[0].schema
    odd = next((table.path for table in tables if table.schema.names != schema.names), None)
    if odd is not None:
        raise ValueError(f"{place}: {odd.name} has other columns than {tables[0].path.name}")
    images = image_column(schema.names, options.image_column, place)
    labels = label_column(schema.names, options.label_column, place)
    paths, read = _image_paths(place, chosen, images)
    if not paths:
        raise ValueError(f"{place}: there is no image in it")
    note = f"images from column {images!r}"
    columns = {} if labels is None else {table.path: table.values(labels) for table in tables}
    labelled = {path: values for path, values in columns.items() if set(values) - {None, -1}}  # -1: not published
    if any(table.path not in labelled for table in chosen):
        return Listing(paths, None, None, read, (f"{note}; no labels",))
    names = (features.get(str(labels)) or {}).get("names")
    values = [value for values in labelled.values() for value in values]
    numbers, classes = number_labels(values, names, source=f"{place}: column {labels!r}")
    numbers_of = dict(zip(labelled, torch.split(numbers, [len(part) for part in labelled.values()]), strict=True))
    note += f", labels from column {labels!r}"
    return Listing(paths, torch.cat([numbers_of[table.path] for table in chosen]), classes, read, (note,))


def _image_paths(place: Path, tables: Sequence[Table], column: str) -> tuple[PathList, TableReader | None]:
    """The names of the images, and how they are read where they lie in the table itself."""
    import pyarrow.types as types

    kind = tables[0].schema.field(column).type
    fields = [kind.field(k).name for k in range(kind.num_fields)] if types.is_struct(kind) else []
    if types.is_string(kind) or types.is_large_string(kind):
        return _files(tables, column), None
    if "bytes" in fields and "path" in fields:
        first = next((table.part(0, column)[0].as_py() for table in tables if len(table)), None)
        if first is not None and first["bytes"] is None:
            return _files(tables, f"{column}.path"), None
    elif "bytes" not in fields and not (types.is_binary(kind) or types.is_large_binary(kind)):
        raise ValueError(f"image_column: {column!r} of {place} has type {kind}, expected bytes of images, or paths")
    names = PathList(f"{table.path}{os.sep}{row}" for table in tables for row in range(len(table)))
    return names, TableReader(type(tables[0]), column)


def _files(tables: Sequence[Table], column: str) -> PathList:
    return PathList(os.path.join(table.path.parent, str(path)) for table in tables for path in table.values(column))


def tables_of_split(place: object, files: Sequence[Path], split: str) -> list[int]:
    """Which of the files of a place make a split, by their names or folders: train-00000.parquet, test/0.parquet."""
    splits = {name for names in SPLIT_FOLDERS.values() for name in names}

    def split_of(file: Path) -> str | None:
        words = [part.replace("_", "-").replace(".", "-").split("-")[0] for part in file.parts]
        return next((word for word in words if word in splits), None)

    names = [split_of(file) for file in files]
    if split == "train" and not any(names):
        return list(range(len(files)))
    wanted = next((name for name in SPLIT_FOLDERS[split] if name in names), None)
    if wanted is None:
        present = ", ".join(sorted({name for name in names if name})) or "none"
        raise NoSplit(f"split: {place} has no {split!r} split; the names of its files tell of {present}")
    return [k for k, name in enumerate(names) if name == wanted]


def features_of(text: bytes | str | None) -> dict[str, Any]:
    """The features that Hugging Face's `datasets` writes beside a table; none where there are none."""
    try:
        info = json.loads(text or "{}")
        features = info.get("info", info).get("features") or {}
        return {name: feature for name, feature in features.items() if isinstance(feature, dict)}
    except (ValueError, AttributeError):
        return {}
