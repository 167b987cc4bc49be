"""A folder that Hugging Face's `datasets` has saved (`save_to_disk`): arrow files, memory-mapped."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

from kvicreg.data.sources.base import PIXELS, Listing, ReadOptions, Source, only_train
from kvicreg.data.sources.layout import choose_split
from kvicreg.data.sources.tables import Table, features_of, import_arrow, list_tables

__all__ = ["SavedDataset"]


class SavedDataset(Source):
    """A data set, or several splits of one, as `save_to_disk` writes them."""

    kind = "a folder saved by datasets"
    reads = PIXELS | {"image_column", "label_column"}

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> Listing:
        import_arrow("a folder saved by datasets")
        if not (path / "dataset_dict.json").is_file():
            only_train("a single saved data set", split, "a folder")
            folders, chosen = [path], path
        else:
            names = [str(name) for name in _read(path / "dataset_dict.json", "splits")]
            chosen = path / choose_split(names, names, split, path)
            folders = [path / name for name in names]
        tables = {folder: [ArrowTable(file) for file in _files(folder)] for folder in folders}
        every = [table for part in tables.values() for table in part]
        if not every or not tables.get(chosen):
            raise ValueError(f"{chosen}: there is no table in it, expected the arrow files that its state.json names")
        info = chosen / "dataset_info.json"
        features = features_of(info.read_bytes() if info.is_file() else None)
        return list_tables(path, every, tables[chosen], features, options)


def _files(folder: Path) -> list[Path]:
    names = [str(entry.get("filename")) for entry in _read(folder / "state.json", "_data_files")]
    outside = next((name for name in names if Path(name).name != name), None)
    if outside is not None:
        raise ValueError(f"{folder / 'state.json'} names {outside!r}, expected a file of its folder")
    return [folder / name for name in names]


def _read(file: Path, key: str) -> list[Any]:
    try:
        values = json.loads(file.read_bytes())[key]
        if not isinstance(values, list):
            raise TypeError(f"{key} is no list")
        return values
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file}: expected what datasets writes there ({error})") from error


class ArrowTable(Table):
    """A stream of record batches, which are its parts."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.path = path
        try:
            table = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
        except Exception as error:  # arrow raises whatever the damage makes it stumble over
            raise ValueError(f"{path}: expected an arrow stream that is whole ({error})") from error
        self.schema, self.batches = table.schema, table.to_batches()
        self.starts = [0, *accumulate(batch.num_rows for batch in self.batches)]

    def part(self, number: int, column: str) -> Any:
        name, _, field = (column, "", "") if column in self.schema.names else column.partition(".")
        part = self.batches[number].column(name)
        try:
            part.validate(full=True)  # arrow follows offsets as they are stored, and crashes where they lead out
        except Exception as error:
            raise ValueError(f"{self.path}: record batch {number} is damaged in column {name!r} ({error})") from error
        return part.field(field) if field else part
