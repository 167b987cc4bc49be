"""The official binary formats, against files written byte by byte."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from kvicreg.data.formats import _unzipped, idx_from_table, read_cifar10, read_idx, read_stl10, read_stl10_labels


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize("zipped", [False, True])
def test_idx_plain_and_gzipped(tmp_path: Path, rng: np.random.Generator, zipped: bool) -> None:
    array = rng.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    path = tmp_path / "train-images-idx3-ubyte"
    if zipped:
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(idx_bytes(array)))
    else:
        path.write_bytes(idx_bytes(array))
    assert np.array_equal(read_idx(path).numpy(), array)


def test_a_table_becomes_the_same_bytes_as_the_published_files(tmp_path: Path, rng: np.random.Generator) -> None:
    images = rng.integers(0, 256, (4, 28, 28), dtype=np.uint8)
    labels = np.array([3, 1, 0, 9], np.uint8)
    rows = [",".join(map(str, (label, *image.ravel()))) for label, image in zip(labels, images, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["label,1x1,1x2", *rows]))
    idx_from_table(tmp_path / "t.csv", tmp_path, "train")
    assert (tmp_path / "train-images-idx3-ubyte").read_bytes() == idx_bytes(images)
    assert (tmp_path / "train-labels-idx1-ubyte").read_bytes() == idx_bytes(labels)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n", "not an idx file"),
        (b"", "not an idx file"),
        (struct.pack(">HBBI", 0, 8, 1, 10) + b"123", "expected 10 bytes"),
    ],
)
def test_a_wrong_idx_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "labels"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_idx(path)


def test_cifar_records(tmp_path: Path, rng: np.random.Generator) -> None:
    images = rng.integers(0, 256, (6, 3, 32, 32), dtype=np.uint8)
    labels = rng.integers(0, 10, 6, dtype=np.uint8)
    records = [bytes([label]) + image.tobytes() for label, image in zip(labels, images, strict=True)]
    (tmp_path / "a.bin").write_bytes(b"".join(records[:4]))
    (tmp_path / "b.bin").write_bytes(b"".join(records[4:]))
    read, read_labels = read_cifar10([tmp_path / "a.bin", tmp_path / "b.bin"])
    assert np.array_equal(read.numpy(), images)
    assert np.array_equal(read_labels.numpy(), labels)


def test_a_cut_cifar_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(4000))
    with pytest.raises(ValueError, match=r"a\.bin: expected whole records of 3073"):
        read_cifar10([tmp_path / "a.bin"])


def test_stl10_is_column_major(tmp_path: Path, rng: np.random.Generator) -> None:
    images = rng.integers(0, 256, (3, 3, 96, 96), dtype=np.uint8)
    raw = b"".join(np.asfortranarray(plane).tobytes(order="F") for image in images for plane in image)
    (tmp_path / "train_X.bin").write_bytes(raw)
    assert np.array_equal(read_stl10(tmp_path / "train_X.bin").numpy(), images)


def test_stl10_labels_count_from_one(tmp_path: Path) -> None:
    (tmp_path / "train_y.bin").write_bytes(bytes([1, 10, 5]))
    assert read_stl10_labels(tmp_path / "train_y.bin").tolist() == [0, 9, 4]


def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(11)))
    assert _unzipped(path, limit=11) == bytes(11)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        _unzipped(path, limit=10)
