"""A CSV or TSV file with an image per row, with a header and quotes or without."""

from __future__ import annotations

import csv
from pathlib import Path

from kvicreg.data.labels import number_labels
from kvicreg.data.sources.base import PIXELS, Listing, ReadOptions, Source, only_train
from kvicreg.data.sources.columns import find_column, image_column, label_column
from kvicreg.data.sources.folders import read_lines
from kvicreg.data.sources.layout import SPLIT_FOLDERS, is_image_name
from kvicreg.data.sources.lists import list_file, listed
from kvicreg.data.stores import NoSplit

__all__ = ["CsvTable"]


class CsvTable(Source):
    """A table of image files, relative to the table's folder; a column "split" tells the splits apart."""

    kind = "a CSV table"
    reads = PIXELS | {"image_column", "label_column"}

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.is_file() and path.suffix.lower() in (".csv", ".tsv")

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> Listing:
        rows = _rows(path)
        if not rows:
            raise ValueError(f"{path}: there is no image in the table")
        named = options.image_column is not None or options.label_column is not None
        if any(map(is_image_name, rows[0])) and not named:
            only_train("a CSV table without a header", split)
            return _without_header(path, rows)
        return _with_header(path, rows, split, options)


def _rows(path: Path) -> list[list[str]]:
    """The cells of every row that has some, without those that begin with #."""
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    lines = list(read_lines(path))
    if lines and separator not in lines[0] and ";" in lines[0]:
        separator = ";"
    try:
        rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(f"{path}: expected rows of comma-separated values ({error})") from error
    return [row for row in rows if any(cell.strip() for cell in row) and not row[0].startswith("#")]


def _without_header(path: Path, rows: list[list[str]]) -> Listing:
    if not all(len(row) <= 2 and is_image_name(row[0]) for row in rows):
        return list_file(path)  # names with commas in them
    paths = [path.parent / row[0].strip() for row in rows]
    return listed(path, paths, [row[1].strip() if len(row) > 1 else "" for row in rows])


def _with_header(path: Path, rows: list[list[str]], split: str, options: ReadOptions) -> Listing:
    header, rows = [cell.strip() for cell in rows[0]], rows[1:]
    wrong = next((k for k, row in enumerate(rows) if len(row) != len(header)), None)
    if wrong is not None:
        raise ValueError(f"{path}: row {wrong + 2} has {len(rows[wrong])} cells, expected {len(header)} as its header")
    images = header.index(image_column(header, options.image_column, path))
    labels = label_column(header, options.label_column, path)
    splits = find_column(header, None, ("split",), "", path)
    chosen = range(len(rows))
    if splits is not None:
        names, at = SPLIT_FOLDERS[split], header.index(splits)
        present = {row[at].strip().lower() for row in rows}
        name = next((name for name in names if name in present), None)
        chosen = [k for k in chosen if rows[k][at].strip().lower() == name]  # type: ignore[assignment]
    else:
        only_train("a CSV table without a column 'split'", split)
    if not chosen:
        raise NoSplit(f"{path}: there is no image in the table" + (f" of the split {split!r}" if splits else ""))
    paths = [path.parent / rows[k][images].strip() for k in chosen]
    note = f"images from column {header[images]!r}"
    if labels is None:
        return Listing(paths, None, None, notes=(f"{note}; no column of labels",))
    cells = [row[header.index(labels)].strip() for row in rows]
    if not all(cells[k] for k in chosen):
        raise ValueError(f"{path}: some rows have no label in column {labels!r}; give all or none")
    numbers, classes = number_labels(cells, source=f"{path}: labels")  # of all splits, so that they agree
    return Listing(paths, numbers[list(chosen)], classes, notes=(f"{note}, labels from column {labels!r}",))
