"""Unpacking: only regular files, only below the folder asked for, never outside the target."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO


class FetchError(OSError):
    """A data set could not be fetched, or is not what it should be."""


def extract(archive: Path, folder: str, target: Path) -> None:
    """The files below `folder` of a zip or tar archive, into `target`."""
    try:
        for name, file in _members(archive):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise FetchError(f"{archive.name} holds {name!r}, a path outside of its folder")
            if not path.is_relative_to(folder):
                continue
            place = target / path.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("wb") as out:
                shutil.copyfileobj(file, out, 1 << 20)
    except (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, EOFError) as error:
        raise FetchError(f"{archive.name} is damaged ({error})") from error


def gunzip(source: Path, target: Path) -> None:
    with gzip.open(source) as file, target.open("wb") as out:
        shutil.copyfileobj(file, out, 1 << 20)


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents of the regular files of an archive; links and devices are left out."""
    if archive.suffix in (".zip", ".whl"):
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                if not entry.is_dir():
                    with zipped.open(entry) as file:
                        yield entry.filename, file
        return
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name.removeprefix("./"), content
