"""`Store`: files in a folder here, or at an address that fsspec opens (s3://, gs://, https://, memory://, ...)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kvicreg.storage import message_of

__all__ = ["NoSplit", "SourceError", "Store", "expand", "is_address"]


class NoSplit(ValueError):
    """A source has no images in the split that is asked for; whatever else is wrong with it is another error."""


class SourceError(ValueError):
    """What holds the images is lost or damaged: no other image can stand in for that."""


def is_address(text: str) -> bool:
    """Whether a text is an address such as s3://bucket/folder rather than a path here."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text) is not None


@dataclass(frozen=True)
class Store:
    """A folder, here or elsewhere. It has nothing open, so that any process may use it at any time."""

    place: str

    def versions(self, names: list[str] | None = None) -> dict[str, tuple[int, str]]:
        """The size of each file, and a text that changes when the file does; by default of all files of the folder."""
        if not is_address(self.place):
            folder = Path(self.place)
            paths = folder.iterdir() if names is None else (folder / name for name in names)
            stats = {path.relative_to(folder).as_posix(): path.stat() for path in paths if path.is_file()}
            return {name: (stat.st_size, str(stat.st_mtime_ns)) for name, stat in stats.items()}
        system, folder_path = self._system()
        try:
            entries = system.ls(folder_path, detail=True) if names is None else self._entries(system, names)
            start = len(folder_path.rstrip("/")) + 1
            files = [entry for entry in entries if entry["type"] == "file"]
            return {entry["name"][start:]: (int(entry["size"] or 0), _version(entry)) for entry in files}
        except FileNotFoundError as error:
            raise SourceError(f"data: there is nothing at {self.place}") from error
        except Exception as error:  # each kind of store has errors of its own
            raise SourceError(f"data: {self.place} can't be listed ({message_of(error)})") from error

    def open(self, name: str) -> IO[bytes]:
        """A file, to read from beginning to end."""
        if not is_address(self.place):
            return (Path(self.place) / name).open("rb")
        file: IO[bytes] = self._system()[0].open(self._path(name), "rb")
        return file

    def read(self, name: str, start: int, size: int) -> bytes:
        """A part of a file; whatever keeps it from being whole is told with the file's name."""
        try:
            if is_address(self.place):
                content = bytes(self._system()[0].cat_file(self._path(name), start=start, end=start + size))
            else:
                with open(os.path.join(self.place, name), "rb") as file:
                    file.seek(start)
                    content = file.read(size)
        except Exception as error:
            raise SourceError(f"{self.place}: {name} can't be read any more ({message_of(error)})") from error
        if len(content) != size:
            raise SourceError(f"{self.place}: {name} ends too early, at byte {start + len(content):,}: it is damaged")
        return content

    def _path(self, name: str) -> str:
        return f"{self._system()[1].rstrip('/')}/{name}"

    def _entries(self, system: Any, names: list[str]) -> list[dict[str, Any]]:
        return [system.info(self._path(name)) for name in names if system.exists(self._path(name))]

    def _system(self) -> tuple[Any, str]:
        """The file system of the address, which fsspec keeps for each process."""
        from fsspec.core import url_to_fs

        try:
            return url_to_fs(self.place)
        except ImportError:
            raise
        except Exception as error:
            raise SourceError(f"data: {self.place} can't be opened ({message_of(error)})") from error


def expand(pattern: str) -> list[str]:
    """The names that a pattern such as train-{000000..000099}.tar stands for.

    Example:
        >>> expand("a-{08..10}.tar"), expand("{x,y}.tar")
        (['a-08.tar', 'a-09.tar', 'a-10.tar'], ['x.tar', 'y.tar'])
    """
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if braces is None:
        return [pattern]
    numbers = re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", braces[1])
    if numbers is None:
        words = braces[1].split(",")
    else:
        first, last = int(numbers[1]), int(numbers[2])
        if not 0 <= last - first < 100_000:
            raise ValueError(f"data: expected up to 100,000 numbers in ascending order, got {braces[0]}")
        words = [f"{number:0{len(numbers[1])}}" for number in range(first, last + 1)]
    return [name for word in words for name in expand(pattern[: braces.start()] + word + pattern[braces.end() :])]


def _version(entry: dict[str, Any]) -> str:
    names = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "mtime", "created")
    return " ".join(str(entry[name]) for name in names if name in entry)
