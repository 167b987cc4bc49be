"""Groups of images: which of them belong together, for group-fair terms and for results by group."""

from __future__ import annotations

import csv
from pathlib import Path

from kvicreg.data.images import ImageData

__all__ = ["read_groups"]


def read_groups(source: str, data: ImageData) -> list[str]:
    """The group of each image of `data`, from a text file with a name per line, or FILE.csv:COLUMN.

    The rows of a csv file are in the order of the images, unless it has a column "path": then they are found by
    the end of their path. COLUMN alone is looked up in groups.csv beside the images.
    """
    try:
        return _read(source, data)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"--groups {source}: expected text in UTF-8, got other bytes ({error})") from error


def _read(source: str, data: ImageData) -> list[str]:
    file, _, column = source.rpartition(":")
    folders = list(data.paths[0].parents)[:3] if data.paths else []
    beside = [folder / "groups.csv" for folder in folders if (folder / "groups.csv").is_file()]
    if file and Path(file).is_file():
        names = _column(Path(file), column, data)
    elif Path(source).is_file():
        names = [line.strip() for line in Path(source).read_text().splitlines() if line.strip()]
    elif beside:
        names = _column(beside[0], source, data)
    else:
        raise ValueError(
            f"--groups {source}: no such file; give a text file with one group name per {data.split} image, or "
            "FILE.csv:COLUMN, or put groups.csv with that column beside the images"
        )
    if len(names) != len(data):
        raise ValueError(
            f"--groups {source}: {len(names)} names for {len(data)} {data.split} images; one each is needed"
        )
    return names


def _column(file: Path, column: str, data: ImageData) -> list[str]:
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    columns = list(rows[0]) if rows else []
    if column not in columns:
        raise ValueError(f"{file} has no column {column!r}; it has {', '.join(columns) or 'none'}")
    if "path" not in columns or data.paths is None:
        return [row[column] for row in rows]
    group_of = {Path(row["path"]).parts[-2:]: row[column] for row in rows}
    missing = [path for path in data.paths if path.parts[-2:] not in group_of]
    if missing:
        raise ValueError(f"{file} has no row for {missing[0].name} (and {len(missing) - 1} more)")
    return [group_of[path.parts[-2:]] for path in data.paths]
