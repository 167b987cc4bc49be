"""Readers of the official binary formats: MNIST's idx, CIFAR's records, STL-10's column-major planes."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


def read_idx(path: Path) -> Tensor:
    """A uint8 tensor of the shape its header tells; `path` may also exist with .gz appended.

    Header: two zero bytes, 0x08 for uint8, the number of dimensions, then each dimension as big-endian int32.
    """
    zipped = path.with_name(path.name + ".gz")
    raw = path.read_bytes() if path.exists() else _unzipped(zipped)
    if raw[:3] != b"\0\0\x08" or len(raw) < 4:
        raise ValueError(f"{path}: not an idx file of unsigned bytes (it starts with {raw[:4].hex()})")
    offset = 4 + 4 * raw[3]
    if len(raw) < offset:
        raise ValueError(f"{path}: its header of {raw[3]} dimensions is cut short")
    shape = tuple(int(n) for n in np.frombuffer(raw, ">i4", raw[3], offset=4))
    if not shape or min(shape) < 0:
        raise ValueError(f"{path}: its header tells the impossible shape {shape}")
    _expect_bytes(path, len(raw) - offset, math.prod(shape))
    return torch.frombuffer(bytearray(raw[offset:]), dtype=torch.uint8).view(shape)


def _unzipped(path: Path, limit: int = 1 << 30) -> bytes:
    try:
        with gzip.open(path) as file:
            content = file.read(limit + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error})") from error
    if len(content) > limit:
        raise ValueError(f"{path} unpacks to more than {limit:,} bytes: it is not an idx file")
    return content


def write_idx(path: Path, array: np.ndarray) -> None:
    """A uint8 array as an idx file, byte for byte as MNIST is published."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(header + array.tobytes())


def idx_from_table(table: Path, folder: Path, stem: str, side: int = 28) -> None:
    """The images and labels of a CSV (a header, then rows of a label and its pixels) as two idx files."""
    rows = np.loadtxt(table, np.uint8, delimiter=",", skiprows=1, ndmin=2)
    write_idx(folder / f"{stem}-images-idx3-ubyte", rows[:, 1:].reshape(-1, side, side))
    write_idx(folder / f"{stem}-labels-idx1-ubyte", rows[:, 0])


def read_cifar10(paths: Sequence[Path]) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) and labels (n,) out of 3073-byte records: the label, then the red, green, blue planes."""
    records = []
    for path in paths:
        raw = np.fromfile(path, np.uint8)
        if raw.size == 0 or raw.size % 3073:
            raise ValueError(f"{path}: expected whole records of 3073 bytes, got {raw.size:,} bytes")
        records.append(raw.reshape(-1, 3073))
    table = torch.from_numpy(np.concatenate(records))
    return table[:, 1:].reshape(-1, 3, 32, 32).contiguous(), table[:, 0].long()


def read_stl10(path: Path, size: int = 96) -> Tensor:
    """Images (n, 3, size, size) of an STL-10 `*_X.bin`: planes are stored column by column, hence the transpose.

    The file is memory-mapped: the 100,000 unlabelled images (2.8 GB) are read only where they are fetched.
    """
    raw = np.memmap(path, np.uint8, mode="c")  # copy-on-write: torch asks for writable memory
    record = 3 * size * size
    if raw.size == 0 or raw.size % record:
        raise ValueError(f"{path}: expected whole images of {record} bytes, got {raw.size:,} bytes")
    return torch.from_numpy(raw.reshape(-1, 3, size, size)).transpose(2, 3)


def read_stl10_labels(path: Path) -> Tensor:
    """Labels (n,) from 0 of an STL-10 `*_y.bin`, which counts from 1."""
    return torch.from_numpy(np.fromfile(path, np.uint8)).long() - 1


def _expect_bytes(path: Path, count: int, expected: int) -> None:
    if count != expected:
        raise ValueError(f"{path}: expected {expected:,} bytes of data after the header, got {count:,}")
