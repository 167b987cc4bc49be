"""A tar archive of images, read in place."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from pathlib import Path

from kvicreg.data.sources.base import PIXELS, Listing, ReadOptions, Source
from kvicreg.data.sources.members import MAX_MEMBER, list_members, plain_name
from kvicreg.data.sources.shards import list_shards
from kvicreg.data.stores import Store

__all__ = ["Tar"]

_PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")


class Tar(Source):
    """A tar archive that is not compressed; folders in it are splits and classes as on disk."""

    kind = "a tar archive"
    reads = PIXELS | {"class_level"}

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.is_file() and path.name.lower().endswith((".tar", *_PACKED))

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> Listing:
        if path.name.lower().endswith(_PACKED):
            raise ValueError(f"{path}: a compressed tar archive has no image by index; unpack it, or pack it as .zip")
        members: dict[str, tuple[int, int]] = {}
        try:
            with tarfile.open(path, "r:") as archive:
                for entry in archive:
                    if entry.isreg() and entry.sparse is None:
                        members[plain_name(entry.name)] = (entry.offset_data, entry.size)
        except Exception as error:  # tarfile raises whatever the damage makes it stumble over
            raise ValueError(f"{path}: expected a tar archive that is whole ({error})") from error
        if any(name.endswith(".cls") for name in members) and not options.given().keys() & {"class_level"}:
            return list_shards(Store(str(path.parent)), [path.name], split, options)
        return list_members(path, list(members), TarReader(path, members), split, options)


@dataclass(frozen=True)
class TarReader:
    """The content of a member by its name. It has no open file, so that any process may use it at any time."""

    archive: Path
    members: dict[str, tuple[int, int]]

    def __call__(self, path: Path) -> bytes:
        offset, size = self.members[path.relative_to(self.archive).as_posix()]
        if size > MAX_MEMBER:
            raise ValueError(f"it claims {size:,} bytes, expected at most {MAX_MEMBER:,}")
        with self.archive.open("rb") as file:
            file.seek(offset)
            content = file.read(size)
        if len(content) != size:
            raise ValueError(f"the archive ends within it: {len(content):,} of {size:,} bytes are there")
        return content
