"""WebDataset shards: tar files with an index, images by index, from here or from an object store."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvicreg.data.images import Names
from kvicreg.data.shard_index import INDEX, ShardIndex, find_index
from kvicreg.data.sources.base import PIXELS, Listing, ReadOptions, Source, TextSource
from kvicreg.data.sources.members import MAX_MEMBER
from kvicreg.data.sources.tables import tables_of_split
from kvicreg.data.stores import Store, expand, is_address
from kvicreg.storage import counted

__all__ = ["RemoteShards", "Shards", "list_shards"]


class Shards(Source):
    """A folder of tar files, with the index that `kvicreg data pack` writes or without."""

    kind = "a folder of shards"
    reads = PIXELS | {"label_column"}

    @classmethod
    def accepts(cls, path: Path) -> bool:
        return path.is_dir() and ((path / INDEX).is_file() or next(path.glob("*.tar"), None) is not None)

    @classmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> Listing:
        return list_shards(Store(str(path)), None, split, options)


class RemoteShards(TextSource):
    """Shards at an address, s3://bucket/shards, or named by a pattern, train-{000000..000099}.tar."""

    kind = "shards by address or pattern"
    reads = PIXELS | {"label_column"}

    @classmethod
    def accepts(cls, text: str) -> bool:
        return is_address(text) or ("{" in text and text.endswith(".tar"))

    @classmethod
    def open(cls, text: str, split: str, options: ReadOptions) -> Listing:
        if not text.endswith(".tar"):
            return list_shards(Store(text.rstrip("/")), None, split, options)
        start = text.partition("{")[0].rfind("/")
        place = text[:start] if start > 0 else "/" if start == 0 else "."
        place = place if is_address(place) else str(Path(place).expanduser())
        return list_shards(Store(place), expand(text[start + 1 :]), split, options)


def list_shards(store: Store, shards: list[str] | None, split: str, options: ReadOptions) -> Listing:
    """The images of the shards whose names tell of a split; of all, where no name tells of one."""
    index = find_index(store, shards, options.label_column)
    chosen = tables_of_split(store.place, [Path(name) for name in index.shards.tolist()], split)
    rows = np.concatenate([np.arange(index.starts[k], index.starts[k + 1]) for k in chosen])
    labels = torch.from_numpy(index.label[rows].astype(np.int64))
    is_labelled = len(labels) > 0 and bool((labels >= 0).all())
    notes = [f"{counted(len(chosen), 'shard')} of {store.place}", *index.notes.tolist()]
    return Listing(
        ShardNames(store.place, index, rows),
        labels if is_labelled else None,
        index.classes.tolist() if is_labelled else None,
        ShardReader(store, index),
        tuple(notes),
        int(index.channels[0]) or None,
    )


class ShardNames(Names):
    """The names PLACE/SHARD/ROW of images, made when they are needed: a million of them take 8 MB."""

    def __init__(self, place: str, index: ShardIndex, rows: np.ndarray) -> None:
        self.place, self.shard_index, self.rows = place, index, rows

    def __len__(self) -> int:
        return len(self.rows)

    def text(self, number: int) -> str:
        row = int(self.rows[number])
        shard = int(np.searchsorted(self.shard_index.starts, row, "right")) - 1
        return f"{self.place}/{self.shard_index.shards[shard]}/{row - int(self.shard_index.starts[shard])}"

    def select(self, numbers: Any) -> ShardNames:
        return ShardNames(self.place, self.shard_index, self.rows[np.asarray(numbers, dtype=np.int64)])


class ShardReader:
    """The content of an image by the name that `ShardNames` gives it."""

    def __init__(self, store: Store, index: ShardIndex) -> None:
        self.store, self.index = store, index
        self._numbers = {Path(f"{store.place}/{name}").as_posix(): k for k, name in enumerate(index.shards.tolist())}

    def __call__(self, path: Path) -> bytes:
        number = self._numbers[path.parent.as_posix()]
        row = int(self.index.starts[number]) + int(path.name)
        offset, size = int(self.index.offset[row]), int(self.index.size[row])
        if size > MAX_MEMBER:
            raise ValueError(f"it claims {size:,} bytes, expected at most {MAX_MEMBER:,}")
        content = self.store.read(str(self.index.shards[number]), offset, size)
        if len(self.index.checksum) and zlib.crc32(content) != int(self.index.checksum[row]):
            raise ValueError("its bytes are not those that were packed: the shard is damaged")
        return content
