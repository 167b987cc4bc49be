"""Packing: the size of shards, what files become, and what is told on the way."""

from __future__ import annotations

import io
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from source_files import CLASSES, COUNT, encoded, folder

from kvicreg.data import ArrayData, load
from kvicreg.data.packing import Image, _encoded, _ending, _images, _Writer, pack
from kvicreg.data.pixels import raw_pixels
from kvicreg.data.shard_index import ShardIndex


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVICREG_DATA", str(tmp_path_factory.mktemp("cache")))


def test_a_shard_ends_with_the_image_that_reaches_its_size(tmp_path: Path) -> None:
    writer = _Writer(tmp_path, 3 * 1024)
    contents = [bytes([k]) * (512 if k < 5 else 600) for k in range(6)]
    writer.write("val", iter([Image(content, "png", 3 if k < 4 else -1) for k, content in enumerate(contents)]))
    assert writer.names == ["val-000000.tar", "val-000001.tar", "val-000002.tar"]
    assert writer.starts == [0, 2, 4, 6]
    index = writer.index(ArrayData(torch.zeros(1, 2, 4, 4, dtype=torch.uint8), ["x"]))
    assert index.size.tolist() == [512] * 5 + [600]
    assert index.label.tolist() == [3] * 4 + [-1] * 2
    assert index.checksum.tolist() == [zlib.crc32(content) for content in contents]
    assert index.checksum.dtype == np.uint32
    assert (index.classes.tolist(), index.channels.tolist(), index.notes.tolist()) == (["x"], [2], [])
    members = []
    for name, size in zip(writer.names, writer.sizes, strict=True):
        assert (tmp_path / name).stat().st_size == size
        with tarfile.open(tmp_path / name) as archive:
            members += [(entry.name, archive.extractfile(entry).read()) for entry in archive]
    assert [name for name, _ in members] == [
        *(f"00000000{k}.{ending}" for k in range(4) for ending in ("png", "cls")), "000000004.png", "000000005.png",
    ]  # fmt: skip
    assert [content for name, content in members if name.endswith("png")] == contents
    assert members[1][1] == b"3"


def test_an_index_tells_how_many_images_were_left_out(tmp_path: Path) -> None:
    writer = _Writer(tmp_path, 1000)
    writer.left_out.append("a.png (cut)")
    index = writer.index(ArrayData(torch.zeros(1, 1, 4, 4, dtype=torch.uint8)))
    assert index.notes.tolist() == ["1 images could not be read when they were packed"]
    assert (len(index), index.classes.tolist()) == (0, [])


@pytest.mark.parametrize(
    ("shape", "dtype", "ending"),
    [
        ((1, 4, 5), np.uint8, "png"), ((3, 4, 5), np.uint8, "png"), ((2, 4, 5), np.uint8, "tif"),
        ((1, 4, 5), np.uint16, "tif"), ((3, 4, 5), np.float32, "tif"), ((4, 4, 5), np.int16, "tif"),
    ],
)  # fmt: skip
def test_an_array_becomes_a_file_without_loss(rng: np.random.Generator, shape: tuple, dtype: type, ending: str) -> None:
    pytest.importorskip("tifffile")
    pixels = (rng.random(shape) * 250).astype(dtype)
    content, kind = _encoded(pixels)
    assert kind == ending
    read = raw_pixels(content)
    assert read.dtype == dtype
    assert np.array_equal(read, np.moveaxis(pixels, 0, -1))


@pytest.mark.parametrize(("kind", "ending"), [("JPEG", "jpg"), ("TIFF", "tif"), ("PNG", "png"), ("WEBP", "webp")])
def test_a_file_without_an_ending_gets_that_of_its_kind(kind: str, ending: str) -> None:
    file = io.BytesIO()
    Pillow.new("RGB", (4, 4)).save(file, kind)
    assert _ending(Path("a/17"), file.getvalue()) == ending
    assert _ending(Path("a/x.JpEg"), b"") == "jpeg"


def test_images_are_told_of_as_they_are_packed(tmp_path: Path) -> None:
    folder(tmp_path / "photos")
    (tmp_path / "photos" / "bee" / "004.png").write_bytes(b"no image")
    steps: list[tuple[str, int, int]] = []
    packed = pack(tmp_path / "photos", tmp_path / "o", progress=lambda *step: steps.append(step))
    assert steps == [("train", k + 1, COUNT) for k in range(COUNT)]
    (name,) = packed.left_out
    assert name.startswith(f"{tmp_path}/photos/bee/004.png (cannot identify image file")
    assert (packed.images, packed.shards) == ({"train": COUNT - 1}, 1)
    assert packed.size == (tmp_path / "o" / "train-000000.tar").stat().st_size
    index = ShardIndex.read(tmp_path / "o" / "index.npz", "x")
    assert (index.classes.tolist(), index.channels.tolist()) == (CLASSES, [0])
    assert "1 images could not be read when they were packed" in load(tmp_path / "o").notes


def test_arrays_tell_their_progress_too() -> None:
    steps: list[tuple[int, int]] = []
    data = ArrayData(torch.arange(3, dtype=torch.uint8)[:, None, None, None].expand(3, 1, 4, 4), ["b", "a", "b"])
    images = list(_images(data, [], lambda *step: steps.append(step)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert [(image.ending, image.label) for image in images] == [("png", 1), ("png", 0), ("png", 1)]
    assert [raw_pixels(image.content)[0, 0, 0] for image in images] == [0, 1, 2]


def test_every_split_of_an_array_is_packed_once_with_its_labels(tmp_path: Path) -> None:
    images = np.arange(6, dtype=np.uint8)[:, None, None] * np.ones((1, 4, 4), np.uint8)
    np.savez(tmp_path / "a.npz", train_images=images, train_labels=np.arange(6) + 3, test_images=images[:2])
    packed = pack(tmp_path / "a.npz", tmp_path / "o")
    assert packed.images == {"train": 6, "test": 2}
    data = load(tmp_path / "o")
    assert (data.labels.tolist(), data.class_names, data.shape) == ([0, 1, 2, 3, 4, 5], list("345678"), (1, 4, 4))
    assert load(tmp_path / "o", "val").labels is None


def test_val_and_test_that_differ_are_both_packed(tmp_path: Path) -> None:
    for split, count in (("train", 2), ("val", 1), ("test", 3), ("unlabelled", 4)):
        (tmp_path / "in" / split / "a").mkdir(parents=True)
        for k in range(count):
            (tmp_path / "in" / split / "a" / f"{k}.png").write_bytes(encoded(k))
    packed = pack(tmp_path / "in", tmp_path / "o")
    assert packed.images == {"train": 2, "test": 3, "val": 1, "unlabelled": 4}
    assert packed.shards == 4
    assert len(load(tmp_path / "o", "unlabelled")) == 4


def test_an_empty_split_is_no_split(tmp_path: Path) -> None:
    (tmp_path / "in" / "train").mkdir(parents=True)
    (tmp_path / "in" / "val").mkdir()
    (tmp_path / "in" / "train" / "0.png").write_bytes(encoded(0))
    assert pack(tmp_path / "in", tmp_path / "o").images == {"train": 1}


def test_a_split_that_can_not_be_read_is_told_and_not_left_out(tmp_path: Path) -> None:
    for name in ("train/a", "train/b", "test/a", "test/c"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "0.png").write_bytes(encoded(0))
    with pytest.raises(ValueError, match="test: these classes are not among those of training: c$"):
        pack(tmp_path / "in", tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_a_folder_with_shards_and_settings_of_pixels_are_refused(tmp_path: Path) -> None:
    folder(tmp_path / "in")
    for name in ("x.tar", "index.npz"):
        (tmp_path / "o").mkdir(exist_ok=True)
        (tmp_path / "o" / name).write_bytes(b"")
        message = f"^out: {tmp_path / 'o'} has shards already; choose another folder, or delete them$"
        with pytest.raises(ValueError, match=message):
            pack(tmp_path / "in", tmp_path / "o")
        (tmp_path / "o" / name).unlink()
    for name, value in (("fit", "stretch"), ("pages", "images"), ("intensity", "0:1")):
        with pytest.raises(
            ValueError, match=f"^{name}: shards hold image files as they are; give it where they are read$"
        ):
            pack(tmp_path / "in", tmp_path / "o", **{name: value})
    assert pack(tmp_path / "in", tmp_path / "o", class_level="none").images == {"train": COUNT}
    assert load(tmp_path / "o").labels is None
