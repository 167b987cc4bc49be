"""Shards: what is packed comes out as it went in, by index, from here and from object stores; damage has a name."""

from __future__ import annotations

import tarfile
from pathlib import Path

import fsspec
import numpy as np
import pytest
import torch
from source_files import CLASSES, COUNT, MAKERS, encoded, folder, shards, tarred, tensors, web_dataset

from kvicreg.cli import main
from kvicreg.data import ArrayData, batches, load
from kvicreg.data.packing import _same, pack
from kvicreg.data.shard_index import ShardIndex
from kvicreg.data.stores import SourceError, expand


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVICREG_DATA", str(tmp_path_factory.mktemp("cache")))


def levels(data) -> list[int]:
    return data.fetch(torch.arange(len(data)))[:, 0, 4, 4].tolist()


@pytest.mark.parametrize("maker", [*MAKERS, tensors], ids=lambda maker: maker.__name__)
def test_any_source_is_packed_without_loss(tmp_path: Path, maker) -> None:
    (tmp_path / "source").mkdir()
    place = maker(tmp_path / "source")
    pack(place, tmp_path / "o")
    source, packed = load(place), load(tmp_path / "o")
    assert torch.equal(packed.fetch(torch.arange(COUNT)), source.fetch(torch.arange(COUNT)))
    assert (packed.class_names, packed.labels.tolist()) == (source.class_names, source.labels.tolist())


@pytest.mark.parametrize(
    ("dtype", "shape"), [(np.uint16, (4, 1)), (np.float32, (4, 3)), (np.uint8, (4, 5)), (np.int16, (4, 2))]
)
def test_deep_arrays_keep_every_value(tmp_path: Path, rng: np.random.Generator, dtype: type, shape: tuple) -> None:
    images = (rng.random((*shape, 9, 9)) * 200).astype(dtype)
    np.save(tmp_path / "a.npy", images)
    pack(tmp_path / "a.npy", tmp_path / "o")
    source, packed = load(tmp_path / "a.npy"), load(tmp_path / "o")
    assert packed.shape == source.shape
    assert packed.intensity == source.intensity
    assert torch.equal(packed.fetch(torch.arange(4)), source.fetch(torch.arange(4)))


def test_grey_arrays_stay_grey(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.uint8)[:, None, None] * np.ones((1, 8, 8), np.uint8))
    pack(tmp_path / "a.npy", tmp_path / "o")
    assert load(tmp_path / "o").shape == (1, 8, 8)
    assert levels(load(tmp_path / "o")) == list(range(6))


def test_splits_are_packed_and_a_split_with_two_names_once(tmp_path: Path) -> None:
    for split in ("train", "val"):
        folder(tmp_path / "photos" / split)
    (tmp_path / "photos/val/ant/000.png").unlink()
    packed = pack(tmp_path / "photos", tmp_path / "o", shard_mb=1)
    assert packed.images == {"train": COUNT, "test": COUNT - 1}
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == [
        "index.npz",
        "test-000000.tar",
        "train-000000.tar",
    ]
    for split in ("val", "test"):
        assert levels(load(tmp_path / "o", split)) == list(range(1, COUNT))


def test_shards_are_ordinary_tar_files_of_the_size_that_was_asked_for(tmp_path: Path) -> None:
    folder(tmp_path / "photos")
    pack(tmp_path / "photos", tmp_path / "o", shard_mb=1)
    with tarfile.open(tmp_path / "o/train-000000.tar") as archive:
        names = archive.getnames()
        assert names[:2] == ["000000000.png", "000000000.cls"]
        assert archive.extractfile(names[0]).read() == encoded(0)
        assert archive.extractfile(names[-1]).read() == b"2"
    big = ArrayData(torch.randint(0, 256, (40, 3, 200, 200), dtype=torch.uint8))
    np.save(tmp_path / "big.npy", big.images.numpy())
    assert pack(tmp_path / "big.npy", tmp_path / "several", shard_mb=1).shards == 5
    data = load(tmp_path / "several")
    assert torch.equal(data.fetch(torch.tensor([39, 0, 13])), big.images[[39, 0, 13]])


def test_an_object_store_by_address_with_workers(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    for path in shards(tmp_path).iterdir():
        store.pipe(f"/bucket/photos/{path.name}", path.read_bytes())
    for address in (
        "memory://bucket/photos",
        "memory://bucket/photos/",
        "memory://bucket/photos/train-{000000..000000}.tar",
    ):
        data = load(address)
        assert (len(data), levels(data)) == (COUNT, list(range(COUNT)))
        assert len(data.class_names) == 3
    here, there = (list(batches(load("memory://bucket/photos"), 4, seed=0, epoch=0, workers=w)) for w in (0, 2))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(here, there, strict=True))
    with pytest.raises(SourceError, match="there is nothing at memory://bucket/none"):
        load("memory://bucket/none")
    with pytest.raises(ValueError, match=r"data: nosuch://x can't be opened"):
        load("nosuch://x")


def test_a_pattern_names_shards_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = web_dataset(tmp_path, 3)
    for pattern in (f"{place}/part-{{000..002}}.tar", f"{place}/part-{{000,001,002}}.tar"):
        assert levels(load(pattern)) == list(range(COUNT))
    monkeypatch.chdir(place)
    assert levels(load("part-{001..002}.tar")) == list(range(4, COUNT))
    assert load("part-{001..002}.tar").name == "part"
    with pytest.raises(ValueError, match=r"the shard part-003\.tar is missing and 1 more"):
        load("part-{000..004}.tar")
    with pytest.raises(ValueError, match="100,000 numbers in ascending order"):
        expand("{9..1}.tar")


def test_headers_are_read_once_and_again_when_a_shard_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import kvicreg.data.shard_index as module

    place, scans = web_dataset(tmp_path), []
    scan = module._scanned
    monkeypatch.setattr(module, "_scanned", lambda *rest: scans.append(1) or scan(*rest))
    load(place)
    load(place)
    assert len(scans) == 1
    tarred(tmp_path)
    (place / "part-002.tar").write_bytes((tmp_path / "photos.tar").read_bytes())
    data = load(place)
    assert (len(scans), len(data), data.labels) == (2, 2 * COUNT, None)
    assert "no labels: only some of the images have one" in data.notes
    (place / "part-002.tar").unlink()
    assert load(place, label_column="id").labels.tolist() == list(range(COUNT))


def test_one_tar_file_with_labels_is_a_shard(tmp_path: Path) -> None:
    data = load(shards(tmp_path) / "train-000000.tar")
    assert data.labels.tolist() == [k // 4 for k in range(COUNT)]
    assert levels(data) == list(range(COUNT))


@pytest.mark.parametrize("indexed", [True, False])
def test_a_missing_or_damaged_shard_is_told_by_name(tmp_path: Path, indexed: bool) -> None:
    place = shards(tmp_path) if indexed else web_dataset(tmp_path)
    shard = sorted(place.glob("*.tar"))[0]
    content = shard.read_bytes()
    shard.write_bytes(content[:3000])
    with pytest.raises(ValueError, match=rf"the shard {shard.name} is damaged"):
        load(place)
    shard.write_bytes(content)
    data = load(place, image_size=4)
    shard.unlink()
    for workers in (0, 2):
        with pytest.raises(SourceError, match=rf"{shard.name} can't be read any more"):
            list(batches(data, 4, seed=0, epoch=0, workers=workers))
    if indexed:
        with pytest.raises(ValueError, match=rf"the shard {shard.name} is missing"):
            load(place)


def test_bytes_that_changed_within_a_shard_are_a_bad_image_with_a_name(tmp_path: Path) -> None:
    place = shards(tmp_path)
    shard = place / "train-000000.tar"
    content = bytearray(shard.read_bytes())
    content[512 + 30] ^= 1
    shard.write_bytes(content)
    data = load(place)
    data.fetch(torch.arange(COUNT))
    assert data.unreadable == [shard / "0"]
    assert "not those that were packed" in data.faults[shard / "0"]


def test_an_index_that_lies_is_refused(tmp_path: Path) -> None:
    place = shards(tmp_path)
    index = ShardIndex.read(place / "index.npz", "x")
    for change in (
        {"offset": index.offset + 10**9}, {"label": index.label + 5}, {"starts": index.starts[::-1].copy()},
        {"shards": np.array(["../../etc"])}, {"size": index.size[1:]}, {"classes": np.arange(3)},
    ):  # fmt: skip
        (place / "index.npz").write_bytes(ShardIndex(**(vars(index) | change)).content())
        with pytest.raises(ValueError, match=r"index\.npz: expected an index of shards that is whole"):
            load(place)


def test_what_cannot_be_read_is_left_out_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder(tmp_path / "photos")
    (tmp_path / "photos/bee/004.png").write_bytes(b"no image")
    assert main(["data", "pack", str(tmp_path / "photos"), "--out", str(tmp_path / "o"), "--shard-mb", "1"]) == 0
    out = capsys.readouterr().out
    assert "Left out: 1 image that could not be read, such as" in out
    assert "004.png" in out
    assert "11 train images in 1 shard of" in out
    assert load(tmp_path / "o").class_names == CLASSES
    assert main(["data", "pack", str(tmp_path / "photos"), "--out", str(tmp_path / "o")]) == 1
    assert "has shards already" in capsys.readouterr().err
    assert main(["data", "pack", str(tmp_path / "photos"), "--out", str(tmp_path / "p"), "--fit", "stretch"]) == 1
    assert "fit: shards hold image files as they are" in capsys.readouterr().err
    assert main(["data", "show", str(tmp_path / "o"), "--out", str(tmp_path / "sheet.png")]) == 0


def test_names_of_many_images_take_little_room(tmp_path: Path) -> None:
    data = load(shards(tmp_path))
    part = data.subset([5, 3])
    assert [path.name for path in part.paths] == ["5", "3"]
    assert part.paths[0] == tmp_path / "shards/train-000000.tar/5"
    assert part.paths.rows.nbytes == 16


def test_two_splits_are_the_same_where_their_images_are():
    images = torch.randint(0, 256, (9, 1, 4, 4), dtype=torch.uint8)
    others = torch.cat([images[:-1], 255 - images[-1:]])
    assert _same(ArrayData(images), ArrayData(images.clone()))
    assert not _same(ArrayData(images), ArrayData(others))
    assert not _same(ArrayData(images), ArrayData(images[:-1]))
