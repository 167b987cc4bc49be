"""A zip archive of images, read in place."""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kvicreg.data.sources.base import PIXELS, Listing, ReadOptions, Source
from kvicreg.data.sources.members import MAX_MEMBER, list_members, plain_name

__all__ = ["Zip"]


class Zip(Source):
    """A zip archive; folders in it are splits and classes as on disk."""

    kind = "a zip archive"
    reads = PIXELS | {"class_level"}

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.is_file() and path.suffix.lower() == ".zip"

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> Listing:
        try:
            with zipfile.ZipFile(path) as archive:
                entries = [entry for entry in archive.infolist() if not entry.is_dir()]
                members = {plain_name(entry.filename): Member.of(entry) for entry in entries}
        except Exception as error:  # zipfile raises whatever the damage makes it stumble over
            raise ValueError(f"{path}: expected a zip archive that is whole ({error})") from error
        return list_members(path, list(members), ZipReader(path, members), split, options)


class Member(NamedTuple):
    """Where a file is in the archive, and how it is packed."""

    offset: int
    packed: int
    size: int
    method: int
    checksum: int
    encrypted: bool

    @classmethod
    def of(cls, entry: zipfile.ZipInfo) -> Member:
        encrypted = bool(entry.flag_bits & 1)
        return cls(entry.header_offset, entry.compress_size, entry.file_size, entry.compress_type, entry.CRC, encrypted)


@dataclass(frozen=True)
class ZipReader:
    """The content of a member by its name. It has no open file, so that any process may use it at any time."""

    archive: Path
    members: dict[str, Member]

    def __call__(self, path: Path) -> bytes:
        member = self.members[path.relative_to(self.archive).as_posix()]
        if member.encrypted or member.method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            what = "encrypted" if member.encrypted else f"packed by method {member.method}"
            raise ValueError(f"it is {what}, expected a member that is stored or deflated")
        if max(member.size, member.packed) > MAX_MEMBER:
            raise ValueError(f"it claims {member.size:,} bytes, expected at most {MAX_MEMBER:,}")
        with self.archive.open("rb") as file:
            file.seek(member.offset)
            header = file.read(30)
            if len(header) < 30 or header[:4] != b"PK\3\4":
                raise ValueError("the archive has no file where it says")
            file.seek(sum(struct.unpack("<HH", header[26:30])), 1)  # the lengths of its name and of its extra field
            packed = file.read(member.packed)
        content = packed
        if member.method == zipfile.ZIP_DEFLATED:
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.size + 1)
        if len(content) != member.size or zlib.crc32(content) != member.checksum:
            raise ValueError("its bytes are not those that were packed: the archive is damaged")
        return content
