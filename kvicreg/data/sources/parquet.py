"""Parquet files with a column of images, as bytes or as paths."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

from kvicreg.data.sources.base import PIXELS, Listing, ReadOptions, Source, only_train
from kvicreg.data.sources.tables import Table, features_of, import_arrow, list_tables, tables_of_split

__all__ = ["Parquet"]


class Parquet(Source):
    """A parquet file, or a folder of them whose names tell the splits."""

    kind = "a parquet table"
    reads = PIXELS | {"image_column", "label_column"}

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.suffix.lower() == ".parquet" if path.is_file() else bool(_files(path))

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> Listing:
        import_arrow("a parquet table")
        if path.is_file():
            only_train(cls.kind, split)
            files, chosen = [path], [0]
        else:
            files = _files(path)
            chosen = tables_of_split(path, [file.relative_to(path) for file in files], split)
        tables = [ParquetTable(file) for file in files]
        features = features_of((tables[0].schema.metadata or {}).get(b"huggingface"))
        return list_tables(path, tables, [tables[k] for k in chosen], features, options)


def _files(folder: Path) -> list[Path]:
    """The parquet files of a folder, or of a folder in it that is called data or as a split."""
    places = ("", "data/", "train/", "test/", "val/", "validation/")
    return sorted({file for place in places for file in folder.glob(f"{place}*.parquet")})


class ParquetTable(Table):
    """A parquet file; its parts are its row groups."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path
        try:
            self.file = pq.ParquetFile(path)
            metadata = self.file.metadata
            self.schema = self.file.schema_arrow
        except Exception as error:  # arrow raises whatever the damage makes it stumble over
            raise ValueError(f"{path}: expected a parquet file that is whole ({error})") from error
        rows = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        self.starts = [0, *accumulate(rows)]

    def part(self, number: int, column: str) -> Any:
        try:
            table = self.file.read_row_group(number, columns=[column], use_threads=False)
        except Exception as error:
            raise ValueError(f"{self.path}: row group {number} of column {column!r} can't be read ({error})") from error
        part = table.column(0).combine_chunks()
        return part.field(column.rpartition(".")[2]) if "." in column and column not in self.schema.names else part
