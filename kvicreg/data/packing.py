"""`pack`: any source of images becomes shards, tar files with an index, that are read by index from anywhere."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch

from kvicreg.data.arrays import ArrayData
from kvicreg.data.files import FileData
from kvicreg.data.images import ImageData
from kvicreg.data.loading import load
from kvicreg.data.pixels import open_image, read_header
from kvicreg.data.shard_index import INDEX, ShardIndex
from kvicreg.data.sources.base import PIXELS
from kvicreg.data.sources.layout import is_image_name
from kvicreg.data.stores import NoSplit, SourceError
from kvicreg.storage import message_of, replacing, write_atomically

__all__ = ["Packed", "pack"]

_ENDINGS = {"JPEG": "jpg", "TIFF": "tif"}
Progress = Callable[[str, int, int], None]  # (split, images done, images in all)


class Packed(NamedTuple):
    """What was packed: images of each split, shards, bytes, and the images that could not be read."""

    images: dict[str, int]
    shards: int
    size: int
    left_out: list[str]


class Image(NamedTuple):
    """A file to pack."""

    content: bytes
    ending: str
    label: int


def pack(
    source: str | Path,
    out: str | Path,
    *,
    shard_mb: int = 256,
    root: str | Path | None = None,
    progress: Progress | None = None,
    **reading: Any,
) -> Packed:
    """Write every split of a source as shards of about `shard_mb` megabytes, image files byte for byte.

    Arrays become PNG or, where they have more than 8 bits or other channels than 1 and 3, TIFF: both without loss.

    Args:
        out: folder to write; it must have no shards yet.
        root: where named data sets live.
        reading: how labels are found: class_level, image_column, label_column.
    """
    out = Path(out)
    for name in sorted(reading.keys() & PIXELS):
        raise ValueError(f"{name}: shards hold image files as they are; give it where they are read")
    if out.is_dir() and any(path.suffix == ".tar" or path.name == INDEX for path in out.iterdir()):
        raise ValueError(f"out: {out} has shards already; choose another folder, or delete them")
    splits = _splits(source, root, reading)
    out.mkdir(parents=True, exist_ok=True)
    writer = _Writer(out, shard_mb * 10**6)
    counts = {}
    for split, data in splits.items():
        before = len(writer.places)
        writer.write(split, _images(data, writer.left_out, partial(progress, split) if progress else None))
        counts[split] = len(writer.places) - before
    first = next(iter(splits.values()))
    write_atomically(out / INDEX, writer.index(first).content())
    return Packed(counts, len(writer.names), sum(writer.sizes), writer.left_out)


def _splits(source: str | Path, root: str | Path | None, reading: dict[str, Any]) -> dict[str, ImageData]:
    """Every split that the source has; of val and test, which may be two names of one, both only where they differ."""
    splits = {"train": load(source, "train", root=root, **reading)}
    for split in ("test", "val", "unlabelled"):
        try:
            data = load(source, split, root=root, **reading)
        except NoSplit:
            continue
        if split != "val" or "test" not in splits or not _same(data, splits["test"]):
            splits[split] = data
    return splits


def _same(one: ImageData, other: ImageData) -> bool:
    if len(one) != len(other) or one.paths is not None:
        return len(one) == len(other) and one.paths == other.paths
    some = torch.linspace(0, len(one) - 1, 8).long()
    return torch.equal(one.fetch(some), other.fetch(some))


def _images(data: ImageData, left_out: list[str], progress: Callable[[int, int], None] | None) -> Iterator[Image]:
    """The files of a data set in order; the name of one that can't be read goes to `left_out`."""
    labels = [-1] * len(data) if data.labels is None else data.labels.tolist()
    if isinstance(data, ArrayData):
        for row, label in enumerate(labels):
            yield Image(*_encoded(np.asarray(data.raw(row))), label)
            if progress is not None:
                progress(row + 1, len(data))
        return
    assert isinstance(data, FileData)
    for row, (path, label) in enumerate(zip(data.paths, labels, strict=True)):
        if progress is not None:
            progress(row + 1, len(data))
        try:
            content = path if data.read is None else data.read(path)
            content = content if isinstance(content, bytes) else content.read_bytes()
            read_header(content)
            yield Image(content, _ending(path, content), label)
        except (ImportError, SourceError):
            raise
        except Exception as error:  # Pillow raises whatever the damage makes it stumble over
            left_out.append(f"{path} ({message_of(error)})")


def _ending(path: Path, content: bytes) -> str:
    if is_image_name(path.name):
        return path.suffix[1:].lower()
    with open_image(content) as image:
        name = image.format or ""
    return _ENDINGS.get(name, name.lower())


def _encoded(pixels: np.ndarray) -> tuple[bytes, str]:
    """Raw values (c, s, s) as a file without loss, and its ending."""
    from PIL import Image as Pillow

    file = io.BytesIO()
    if pixels.dtype == np.uint8 and len(pixels) in (1, 3):
        Pillow.fromarray(pixels[0] if len(pixels) == 1 else np.moveaxis(pixels, 0, -1)).save(file, "PNG")
        return file.getvalue(), "png"
    try:
        import tifffile
    except ImportError as error:
        raise ImportError("such images are packed as TIFF by tifffile: pip install 'kvicreg[sources]'") from error
    planes = pixels[0] if len(pixels) == 1 else np.ascontiguousarray(np.moveaxis(pixels, 0, -1))
    more: dict[str, Any] = (
        {} if len(pixels) == 1 else {"extrasamples": [0] * (len(pixels) - 1), "planarconfig": "contig"}
    )
    tifffile.imwrite(file, planes, photometric="minisblack", metadata=None, **more)
    return file.getvalue(), "tif"


class _Writer:
    """Shards under way, and what their index will say; a shard has its name when it is whole."""

    def __init__(self, out: Path, limit: int) -> None:
        self.out, self.limit = out, limit
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.starts = [0]
        self.places: list[tuple[int, int, int, int]] = []  # offset, size, label, checksum
        self.left_out: list[str] = []

    def write(self, split: str, images: Iterator[Image]) -> None:
        """The shards of a split."""
        number, image = 0, next(images, None)
        while image is not None:
            name = f"{split}-{number:06}.tar"
            with replacing(self.out / name) as temporary, temporary.open("wb") as file:
                while image is not None and file.tell() < self.limit:
                    self._add(file, image)
                    image = next(images, None)
                file.write(bytes(1024))  # the end of a tar file
                self.sizes.append(file.tell())
            self.names.append(name)
            self.starts.append(len(self.places))
            number += 1

    def _add(self, file: IO[bytes], image: Image) -> None:
        key = f"{len(self.places):09}"
        offset = _member(file, f"{key}.{image.ending}", image.content)
        self.places.append((offset, len(image.content), image.label, zlib.crc32(image.content)))
        if image.label >= 0:
            _member(file, f"{key}.cls", str(image.label).encode())

    def index(self, data: ImageData) -> ShardIndex:
        """The index of all shards; classes and channels are those of the training images."""
        offset, size, label, checksum = np.array(self.places, dtype=np.int64).reshape(-1, 4).T
        channels = data.shape[0] if isinstance(data, ArrayData) else 0
        notes = [f"{len(self.left_out)} images could not be read when they were packed"] if self.left_out else []
        return ShardIndex(
            np.array(self.names), np.array(self.sizes), np.array(self.starts), offset, size, label,
            checksum.astype(np.uint32), np.array(data.class_names or [], dtype=np.str_), np.array([channels]),
            np.array(notes, dtype=np.str_),
        )  # fmt: skip


def _member(file: IO[bytes], name: str, content: bytes) -> int:
    """Write a file into a tar file; returns where its content begins."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    file.write(entry.tobuf(tarfile.USTAR_FORMAT))
    offset = file.tell()
    file.write(content + bytes(-len(content) % 512))
    return offset
