"""Every kind of source gives the same images by index, to any process, with the labels and splits that it tells."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from source_files import CLASSES, COUNT, MAKERS, array, encoded, folder, name_of, parquet

from kvicreg.data import batches, load
from kvicreg.data.sources.parquet import ParquetTable
from kvicreg.data.sources.tables import TableReader


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return request.param(tmp_path)


def levels(images: torch.Tensor) -> list[int]:
    return images[:, 0, 4, 4].tolist()


def test_images_come_by_index_with_their_labels(source: Path) -> None:
    data = load(source)
    assert (len(data), data.shape) == (COUNT, (3, 8, 8))
    assert levels(data.fetch(torch.tensor([7, 0, 11, 7]))) == [7, 0, 11, 7]
    assert data.class_names == CLASSES
    assert data.labels is not None
    assert data.labels.tolist() == [k // 4 for k in range(COUNT)]
    assert data.unreadable == []


def test_a_subset_and_a_pickled_copy_give_the_same(source: Path) -> None:
    data = load(source).subset(torch.tensor([9, 2, 5])).subset([2, 0])
    copy = pickle.loads(pickle.dumps(data))
    for part in (data, copy):
        assert levels(part.fetch(torch.arange(2))) == [5, 9]
        assert part.labels is not None
        assert part.labels.tolist() == [1, 2]


def test_worker_processes_see_the_same_batches(source: Path) -> None:
    data = load(source)
    data.fetch(torch.tensor([3]))  # whatever the reader opens is open before the processes part
    here = list(batches(data, 4, seed=0, epoch=1))
    there = list(batches(data, 4, seed=0, epoch=1, workers=2))
    assert len(here) == 3
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(here, there, strict=True))


def test_size_and_channels_are_those_that_are_given(source: Path) -> None:
    data = load(source, image_size=5, channels=1)
    assert data.fetch(torch.tensor([4, 6])).shape == (2, 1, 5, 5)


def test_a_split_that_is_not_there_is_told(source: Path) -> None:
    with pytest.raises(ValueError, match=r"split"):
        load(source, "test")


def test_a_setting_that_the_source_does_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"image_column: .* is a folder of images, which does not read it.*parquet"):
        load(folder(tmp_path), image_column="x")
    with pytest.raises(ValueError, match=r"class_level: .* is a \.npy array, which does not read it"):
        load(array(tmp_path), class_level="1")
    with pytest.raises(ValueError, match=r"pages: mnist-small is a data set known by name"):
        load("mnist-small", pages="images")
    with pytest.raises(ValueError, match="there is no setting 'class_lvl'; did you mean 'class_level'"):
        load(tmp_path, class_lvl=1)


def test_archives_have_splits_and_classes_as_folders_have(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for k, name in enumerate(["train/b/0.png", "train/a/1.png", "val/b/2.png", "__MACOSX/train/a/._1.png"]):
            archive.writestr(f"top/{name}" if k < 3 else name, encoded(k))
        archive.writestr("top/train/a/notes.heic", b"x")
        archive.writestr("../../out.png", encoded(9))
    train, test, val = (load(tmp_path / "x.zip", split) for split in ("train", "test", "val"))
    assert train.class_names == test.class_names == ["a", "b"]
    assert [data.labels.tolist() for data in (train, test, val) if data.labels is not None] == [[0, 1], [1], [1]]
    assert levels(test.fetch(torch.tensor([0]))) == levels(val.fetch(torch.tensor([0]))) == [2]
    assert any("1 file is left out" in note and "1 .heic" in note for note in train.notes)
    assert any("1 file is left out, with a name that leads out" in note for note in train.notes)
    assert train.paths is not None
    assert train.paths[0] == tmp_path / "x.zip" / "top/train/a/1.png"


def test_unusual_names_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for k, name in enumerate(["./a/0.png", "a//1.png", "a/ü ñ.png", "b c/3.PNG"]):
            archive.writestr(zipfile.ZipInfo(name), encoded(k))
    data = load(tmp_path / "x.zip")
    assert sorted(levels(data.fetch(torch.arange(4)))) == [0, 1, 2, 3]
    assert (data.class_names, data.unreadable) == (["a", "b c"], [])


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    folder(tmp_path)
    rows = [f'"{name_of(k)}",{k % 2},"so, {k % 3}"' for k in range(COUNT)]
    (tmp_path / "t.csv").write_text("\n".join(["where,odd,third", *rows]))
    data = load(tmp_path / "t.csv", image_column="where", label_column="third")
    assert data.class_names == ["so, 0", "so, 1", "so, 2"]
    assert data.notes[0] == "images from column 'where', labels from column 'third'"
    with pytest.raises(ValueError, match=r"image_column: no column of .*t\.csv is called image or path; it has where"):
        load(tmp_path / "t.csv")
    with pytest.raises(ValueError, match=r"label_column: .*t\.csv has no column 'x'; it has where, odd, third"):
        load(tmp_path / "t.csv", image_column="where", label_column="x")


def test_a_column_called_split_tells_the_splits(tmp_path: Path) -> None:
    folder(tmp_path)
    rows = [f"{name_of(k)},{CLASSES[k // 4]},{'val' if k > 9 else 'train'}" for k in range(COUNT)]
    (tmp_path / "t.csv").write_text("\n".join(["image,label,split", *rows]))
    train, test = load(tmp_path / "t.csv"), load(tmp_path / "t.csv", "test")
    assert (len(train), len(test)) == (10, 2)
    assert test.labels is not None
    assert test.labels.tolist() == [2, 2]  # numbered as in training


def test_a_table_without_a_header_is_a_list(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "t.csv").write_text('"ant/000.png","x, y"\nbee/004.png,z\n')
    data = load(tmp_path / "t.csv")
    assert (len(data), data.class_names) == (2, ["x, y", "z"])


def test_a_row_that_does_not_fit_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("image,label\na.png,x\nb.png,y,z\n")
    with pytest.raises(ValueError, match=r"t\.csv: row 3 has 3 cells, expected 2"):
        load(tmp_path / "t.csv")


def test_a_folder_of_parquet_files_has_the_splits_of_their_names(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    (tmp_path / "data").mkdir()
    for name, rows in (("train-00000-of-00002", [0, 8]), ("train-00001-of-00002", [4]), ("validation-0", [9])):
        content = pa.table({"img": [encoded(k) for k in rows], "label": [CLASSES[k // 4] for k in rows]})
        pq.write_table(content, tmp_path / "data" / f"{name}.parquet")
    train, test = load(tmp_path), load(tmp_path, "test")
    assert levels(train.fetch(torch.arange(3))) == [0, 8, 4]
    assert levels(test.fetch(torch.arange(1))) == [9]
    assert test.labels is not None
    assert test.labels.tolist() == [2]
    with pytest.raises(ValueError, match=r"no 'unlabelled' split; the names of its files tell of train, validation"):
        load(tmp_path, "unlabelled")


def test_a_process_keeps_a_bounded_part_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvicreg.data.sources.tables._CACHE", 1000)
    path = parquet(tmp_path)
    reader = TableReader(ParquetTable, "image")
    for row in (0, 11, 6, 1):
        assert reader(path / str(row)) == encoded(row)
        assert len(reader._parts) <= 1 + 1000 // len(encoded(0) * 5)


def test_what_datasets_saves_is_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="pip install datasets")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=CLASSES)})
    rows = {
        "image": [Image.open(io.BytesIO(encoded(k))) for k in range(COUNT)],
        "label": [k // 4 for k in range(COUNT)],
    }
    data = datasets.Dataset.from_dict(rows, features=features)
    splits = datasets.DatasetDict({"train": data.select(range(8)), "test": data.select(range(8, COUNT))})
    splits.save_to_disk(str(tmp_path / "saved"))
    test = load(tmp_path / "saved", "val")
    assert (levels(test.fetch(torch.arange(4))), test.class_names) == ([8, 9, 10, 11], CLASSES)
    assert test.labels is not None
    assert test.labels.tolist() == [2] * 4


def test_a_compressed_tar_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"x\.tar\.gz: a compressed tar archive has no image by index; unpack it"):
        load(tmp_path / "x.tar.gz")


@pytest.mark.parametrize("module", ["pyarrow", "tifffile"])
def test_a_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    tifffile = pytest.importorskip("tifffile")
    source = parquet(tmp_path)
    if module == "tifffile":
        (tmp_path / "deep").mkdir()
        tifffile.imwrite(tmp_path / "deep" / "a.tif", np.zeros((8, 8, 5), np.uint16), planarconfig="contig")
        source = tmp_path / "deep"
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'kvicreg\[sources\]'"):
        load(source)


def test_a_table_needs_no_labels(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(0))
    (tmp_path / "t.csv").write_text("path,taken\na.png,2023\n")
    data = load(tmp_path / "t.csv")
    assert (len(data), data.labels) == (1, None)
    assert data.paths == [tmp_path / "a.png"]
    assert "no column of labels" in data.notes[0]
