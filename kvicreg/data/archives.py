"""Unpacking: only regular files, only below the folder asked for, never outside the target."""

from __future__ import annotations

import gzip
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

# what the standard library raises for archives that are cut short or made up
DAMAGE: tuple[type[Exception], ...] = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, struct.error,
    EOFError, LookupError, NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


class FetchError(OSError):
    """A data set could not be fetched, or is not what it should be."""


def extract(archive: Path, folder: str, target: Path, *, limit: int) -> None:
    """The files below `folder` of a zip or tar archive, into `target`; together at most `limit` bytes."""
    left = limit
    try:
        for name, file in _members(archive):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise FetchError(f"{archive.name} holds {name!r}, a path outside of its folder")
            if not path.is_relative_to(folder):
                continue
            place = target / path.relative_to(folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            left -= _copy(file, place, left, archive.name)
    except DAMAGE as error:
        raise FetchError(f"{archive.name} is damaged ({error})") from error


def gunzip(source: Path, target: Path, *, limit: int) -> None:
    """The content of a .gz file, at most `limit` bytes."""
    try:
        with gzip.open(source) as file:
            _copy(file, target, limit, source.name)
    except DAMAGE as error:
        raise FetchError(f"{source.name} is damaged ({error})") from error


def _copy(file: IO[bytes] | gzip.GzipFile, place: Path, limit: int, source: str) -> int:
    """Copy up to `limit` bytes, whatever the archive says of its size; how many there were."""
    written = 0
    with place.open("wb") as out:
        while block := file.read(1 << 20):
            written += len(block)
            if written > limit:
                raise FetchError(f"{source} unpacks to more than it should: it is not what it claims to be")
            out.write(block)
    return written


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents of the regular files of an archive; links and devices are left out."""
    return _zip_members(archive) if archive.suffix in (".zip", ".whl") else _tar_members(archive)


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as zipped:
        for entry in zipped.infolist():
            if not entry.is_dir():
                with zipped.open(entry) as file:
                    yield entry.filename, file


def _tar_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name.removeprefix("./"), content
