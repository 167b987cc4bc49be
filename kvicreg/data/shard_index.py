"""`ShardIndex`: where each image lies in the shards, so that images of tar files come by index."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.data.catalogue import data_root
from kvicreg.data.labels import number_labels
from kvicreg.data.sources.columns import label_column
from kvicreg.data.sources.layout import is_image_name, left_out
from kvicreg.data.stores import Store
from kvicreg.storage import message_of, read_arrays, write_atomically

__all__ = ["INDEX", "ShardIndex", "find_index"]

INDEX = "index.npz"
_LARGEST_LABEL = 1 << 16
_BESIDE = (".cls", ".json", ".txt", ".npz")


@dataclass(frozen=True)
class ShardIndex:
    """Arrays with an entry per shard, and arrays with an entry per image in the order of the shards.

    Attributes:
        shards, shard_bytes: names and sizes of the shards.
        starts: number of the first image of each shard, and of all images at the end.
        offset, size: where an image is in its shard.
        label: its class, -1 for none.
        checksum: CRC-32 of each image; empty where it is not known.
        classes: names of the classes.
        channels: those that the images are to be read with; 0 where they decide.
        notes: what is to be told.
    """

    shards: np.ndarray
    shard_bytes: np.ndarray
    starts: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    label: np.ndarray
    checksum: np.ndarray
    classes: np.ndarray
    channels: np.ndarray
    notes: np.ndarray

    def __len__(self) -> int:
        return len(self.offset)

    def content(self) -> bytes:
        """The index as a file."""
        file = io.BytesIO()
        np.savez(file, **{field.name: getattr(self, field.name) for field in fields(self)})
        return file.getvalue()

    @classmethod
    def read(cls, content: io.BytesIO | Path, name: str) -> ShardIndex:
        """An index from its file; one that does not hold together is refused."""
        try:
            arrays = read_arrays(content)  # type: ignore[arg-type]  # numpy reads from memory too
            index = cls(**{field.name: arrays[field.name] for field in fields(cls)})
            index._check()
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            reason = message_of(error)
            raise ValueError(f"{name}: expected an index of shards that is whole ({reason}); delete it") from error
        return index

    def _check(self) -> None:
        kinds = {"shards": "U", "classes": "U", "notes": "U"}
        for field in fields(self):
            array = getattr(self, field.name)
            if array.ndim != 1 or array.dtype.kind not in kinds.get(field.name, "iu"):
                raise ValueError(f"{field.name} is {array.dtype} {array.shape}")
        n, ends = len(self.offset), self.starts
        if not (len(self.size) == len(self.label) == n and len(self.checksum) in (0, n) and len(self.channels) == 1):
            raise ValueError("its columns differ in length")
        if len(self.shards) != len(self.shard_bytes) or len(ends) != len(self.shards) + 1:
            raise ValueError("its shards differ in number")
        if ends[0] != 0 or ends[-1] != n or bool((np.diff(ends) < 0).any()):
            raise ValueError("its shards do not add up")
        if any(name.startswith("/") or ".." in name.split("/") for name in self.shards.tolist()):
            raise ValueError("a shard's name leads out of the folder")
        room = np.repeat(self.shard_bytes.astype(np.int64), np.diff(ends))
        if bool((self.offset < 0).any() or (self.size < 0).any() or (self.offset + self.size > room).any()):
            raise ValueError("an image lies beyond its shard")
        if n and not -1 <= int(self.label.min()) <= int(self.label.max()) < max(1, len(self.classes)):
            raise ValueError("a label has no class")


def find_index(store: Store, shards: list[str] | None, wanted_label: str | None) -> ShardIndex:
    """The index of shards, checked against them: the one beside them, or one made by reading their headers once.

    Args:
        shards: names of the tar files; by default all in the folder.
        wanted_label: entry of the .json members that has the label.
    """
    present = store.versions(shards)
    names = sorted(name for name in present if name.lower().endswith(".tar")) if shards is None else shards
    if shards is None and INDEX in present and wanted_label is None:
        with store.open(INDEX) as file:
            index = ShardIndex.read(io.BytesIO(file.read()), f"{store.place}/{INDEX}")
    else:
        _check_present(store, names, present)
        if not names:
            raise ValueError(f"{store.place}: there is no shard in it, expected .tar files")
        index = _kept_index(store, names, present, wanted_label)
    _check_present(store, index.shards.tolist(), present)
    for name, size in zip(index.shards.tolist(), index.shard_bytes.tolist(), strict=True):
        if present[name][0] != size:
            raise ValueError(
                f"{store.place}: the shard {name} is damaged: it has {present[name][0]:,} bytes, expected {size:,}"
            )
    return index


def _check_present(store: Store, names: Sequence[str], present: dict[str, Any]) -> None:
    missing = [name for name in names if name not in present]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"{store.place}: the shard {missing[0]} is missing{more}; bring it back")


def _kept_index(
    store: Store, names: list[str], present: dict[str, tuple[int, str]], wanted_label: str | None
) -> ShardIndex:
    """The index of shards that have none, from the user's cache, where it is kept."""
    identity = json.dumps([store.place, [(name, *present[name]) for name in names], wanted_label])
    stored = data_root() / "indexes" / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.npz"
    if stored.is_file():
        try:
            return ShardIndex.read(stored, str(stored))
        except ValueError:
            stored.unlink()
    index = _scanned(store, names, [present[name][0] for name in names], wanted_label)
    try:
        stored.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(stored, index.content())
    except OSError:  # no place for it: the headers are read again the next time
        pass
    return index


def _scanned(store: Store, names: list[str], sizes: list[int], wanted_label: str | None) -> ShardIndex:
    """An index from the headers of the shards, and from the labels between the images."""
    places: list[tuple[int, int]] = []
    labels: list[Any] = []
    starts, others = [0], []
    for name in names:
        try:
            with store.open(name) as file, tarfile.open(fileobj=file, mode="r:") as archive:
                images, beside, rest = _members(archive, wanted_label, f"{store.place}/{name}")
        except (tarfile.TarError, OSError, EOFError, LookupError, RuntimeError, UnicodeError) as error:
            raise ValueError(f"{store.place}: the shard {name} is damaged, or no tar file ({error})") from error
        places += images.values()
        labels += [beside.get(key) for key in images]
        others += rest
        starts.append(len(places))
    if not places:
        raise ValueError(f"{store.place}: there is no image in its {len(names)} shards")
    numbers, classes = np.full(len(places), -1), list[str]()
    if all(label is not None for label in labels):
        tensor, classes = number_labels(labels, source=f"{store.place}: labels")
        numbers = tensor.numpy()
    notes = [*left_out(others)]
    if not classes and any(label is not None for label in labels):
        notes.append("no labels: only some of the images have one")
    offset, size = np.array(places, dtype=np.int64).T
    return ShardIndex(
        np.array(names), np.array(sizes, dtype=np.int64), np.array(starts), offset, size, numbers,
        np.zeros(0, np.uint32), np.array(classes, dtype=np.str_), np.zeros(1, np.int64),
        np.array(notes, dtype=np.str_),
    )  # fmt: skip


def _members(
    archive: tarfile.TarFile, wanted_label: str | None, shard: str
) -> tuple[dict[str, tuple[int, int]], dict[str, Any], list[str]]:
    """Images (offset, size) and labels of a shard by key, and the names of what is neither."""
    images: dict[str, tuple[int, int]] = {}
    labels: dict[str, Any] = {}
    others: list[str] = []
    for entry in archive:
        folder, slash, base = entry.name.rpartition("/")
        if not entry.isreg() or base.startswith("."):
            continue
        key = folder + slash + base.partition(".")[0]
        if is_image_name(base):
            images[key] = (entry.offset_data, entry.size)
        elif base.lower().endswith((".cls", ".json")) and entry.size <= _LARGEST_LABEL:
            content = archive.extractfile(entry)
            label = _label(b"" if content is None else content.read(), base, wanted_label, shard)
            labels |= {} if label is None else {key: label}
        elif not base.lower().endswith(_BESIDE):
            others.append(base)
    return images, labels, others


def _label(content: bytes, name: str, wanted: str | None, shard: str) -> Any:
    """The label in a .cls or .json member, or None."""
    text = content.decode("utf-8", "replace").strip()
    if name.lower().endswith(".cls"):
        return (int(text) if text.isascii() and text.isdigit() else text) if text and wanted is None else None
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, dict):
        return None
    column = label_column([str(key) for key in entries], wanted, f"{shard}/{name}")
    label = None if column is None else entries[column]
    return label if isinstance(label, int | str) else None
