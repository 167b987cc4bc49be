"""Tables of images: parquet, what `datasets` saves, CSV; columns, labels, splits, and what is wrong with them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from source_files import CLASSES, COUNT, encoded, folder, name_of, number_of

from kvicreg.data import load
from kvicreg.data.sources.columns import image_column, label_column
from kvicreg.data.sources.saved_dataset import ArrowTable
from kvicreg.data.sources.tables import TableReader, features_of

pa = pytest.importorskip("pyarrow", reason="pip install 'kvicreg[sources]'")
pq = pytest.importorskip("pyarrow.parquet")
FEATURES = {"image": {"_type": "Image"}, "label": {"names": CLASSES, "_type": "ClassLabel"}}


def levels(data) -> list[int]:
    return data.fetch(torch.arange(len(data)))[:, 0, 4, 4].tolist()


def save_splits(place: Path, **splits: range) -> Path:
    """Several splits as `DatasetDict.save_to_disk` writes them."""
    for split, rows in splits.items():
        (place / split).mkdir(parents=True)
        images = [{"bytes": encoded(k), "path": None} for k in rows]
        table = pa.table({"image": images, "label": [number_of(k) for k in rows]})
        with pa.ipc.new_stream(str(place / split / "data.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
        (place / split / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
        (place / split / "dataset_info.json").write_text(json.dumps({"features": FEATURES}))
    (place / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    return place


def test_several_saved_splits_are_read_with_their_classes(tmp_path: Path) -> None:
    place = save_splits(tmp_path / "saved", train=range(8), validation=range(8, COUNT))
    train, val = load(place), load(place, "val")
    assert (levels(train), levels(val)) == (list(range(8)), [8, 9, 10, 11])
    assert (train.labels.tolist(), val.labels.tolist()) == ([0] * 4 + [1] * 4, [2] * 4)
    assert train.class_names == val.class_names == CLASSES
    assert train.notes == ("images from column 'image', labels from column 'label'",)
    with pytest.raises(ValueError, match=f"^split: {place} has no 'unlabelled' split"):
        load(place, "unlabelled")


def test_saved_splits_without_names_of_classes_are_numbered_together(tmp_path: Path) -> None:
    place = save_splits(tmp_path / "saved", train=range(8), test=range(8, COUNT))
    for split in ("train", "test"):
        (place / split / "dataset_info.json").unlink()
    assert load(place, "test").class_names == ["0", "1", "2"]
    assert load(place, "test").labels.tolist() == [2] * 4


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train/state.json", {"_data_files": []}, "train: there is no table in it, expected the arrow files that its"),
        (
            "train/state.json",
            {"_data_files": 3},
            r"state\.json: expected what datasets writes there \(_data_files is no",
        ),
        ("dataset_dict.json", {}, r"dataset_dict\.json: expected what datasets writes there \('splits'\)"),
    ],
)
def test_a_saved_folder_that_lacks_something_names_it(tmp_path: Path, file: str, content: dict, message: str) -> None:
    place = save_splits(tmp_path / "saved", train=range(4), test=range(4))
    (place / file).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message):
        load(place)


def test_a_single_saved_set_has_only_training(tmp_path: Path) -> None:
    place = save_splits(tmp_path / "saved", train=range(4)) / "train"
    assert levels(load(place)) == [0, 1, 2, 3]
    message = "^split: a single saved data set has only 'train'; give the 'test' images a folder of their own$"
    with pytest.raises(ValueError, match=message):
        load(place, "test")


def test_the_parts_of_an_arrow_file_are_its_batches(tmp_path: Path) -> None:
    table = ArrowTable(save_splits(tmp_path, train=range(5)) / "train" / "data.arrow")
    assert (table.starts, len(table)) == ([0, 2, 4, 5], 5)
    assert table.values("label") == [0, 0, 0, 0, 1]
    assert table.part(1, "image.bytes").to_pylist() == [encoded(2), encoded(3)]


def write_parquet(path: Path, rows: range, metadata: dict | None = None, **columns: list) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"image": [encoded(k) for k in rows]} | columns)
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=2)
    return path


def test_parquet_of_the_hub_tells_the_names_of_its_classes(tmp_path: Path) -> None:
    metadata = {"huggingface": json.dumps({"info": {"features": FEATURES}})}
    data = load(write_parquet(tmp_path / "a.parquet", range(3), metadata, label=[2, 0, 2]))
    assert (data.class_names, data.labels.tolist(), levels(data)) == (CLASSES, [2, 0, 2], [0, 1, 2])
    with pytest.raises(
        ValueError, match="^split: a parquet table has only 'train'; give the 'test' images a file of th"
    ):
        load(tmp_path / "a.parquet", "test")


@pytest.mark.parametrize("labels", [[-1, -1], [None, None]])
def test_a_split_whose_labels_are_not_published_has_none(tmp_path: Path, labels: list) -> None:
    write_parquet(tmp_path / "data" / "train-0.parquet", range(3), label=pa.array([5, 7, 5]))
    write_parquet(tmp_path / "data" / "test-0.parquet", range(2), label=pa.array(labels, pa.int64()))
    train, test = load(tmp_path), load(tmp_path, "test")
    assert (train.labels.tolist(), train.class_names) == ([0, 1, 0], ["5", "7"])
    assert (test.labels, test.class_names, test.notes) == (None, None, ("images from column 'image'; no labels",))


def test_labels_of_the_files_of_a_folder_are_numbered_together(tmp_path: Path) -> None:
    write_parquet(tmp_path / "train-0.parquet", range(3), label=["b", "a", "b"])
    write_parquet(tmp_path / "val-0.parquet", range(1), label=["c"])
    assert load(tmp_path, "val").labels.tolist() == [2]
    assert load(tmp_path).class_names == ["a", "b", "c"]
    write_parquet(tmp_path / "train-1.parquet", range(1), other=["c"])
    with pytest.raises(ValueError, match=rf"^{tmp_path}: train-1\.parquet has other columns than train-0\.parquet$"):
        load(tmp_path)


@pytest.mark.parametrize("place", ["", "data/", "train/"])
def test_where_parquet_files_are_looked_for(tmp_path: Path, place: str) -> None:
    write_parquet(tmp_path / f"{place}0.parquet", range(2))
    assert levels(load(tmp_path)) == [0, 1]


def test_images_as_paths_in_a_struct(tmp_path: Path) -> None:
    folder(tmp_path)
    images = [{"bytes": None, "path": name_of(k)} for k in (3, 9)]
    pq.write_table(pa.table({"image": images}), tmp_path / "t.parquet")
    data = load(tmp_path / "t.parquet")
    assert levels(data) == [3, 9]
    assert data.paths == [tmp_path / name_of(3), tmp_path / name_of(9)]


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([1, 2], "image_column: 'image' of {place} has type int64, expected bytes of images, or paths"),
        (pa.array([], pa.binary()), "{place}: there is no image in it"),
    ],
)
def test_a_column_without_images_is_told(tmp_path: Path, images: list, message: str) -> None:
    pq.write_table(pa.table({"image": images}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=f"^{re.escape(message.format(place=tmp_path / 't.parquet'))}$"):
        load(tmp_path / "t.parquet")


def test_a_row_without_an_image_is_a_bad_image(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [encoded(1), None, encoded(2), b""]}), tmp_path / "t.parquet")
    data = load(tmp_path / "t.parquet")
    data.fetch(torch.arange(4))
    assert data.faults == dict.fromkeys((tmp_path / "t.parquet" / row for row in "13"), "its row has no image")


def test_a_reader_keeps_the_part_that_it_used_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = ArrowTable(save_splits(tmp_path, train=range(6)) / "train" / "data.arrow")
    monkeypatch.setattr("kvicreg.data.sources.tables._CACHE", 2 * table.part(0, "image").nbytes + 100)
    read, parts = TableReader(ArrowTable, "image"), []
    part = ArrowTable.part
    monkeypatch.setattr(
        ArrowTable, "part", lambda self, number, column: parts.append(number) or part(self, number, column)
    )
    for row in (0, 2, 1, 4, 0, 2):
        assert read(table.path / str(row)) == encoded(row)
    assert parts == [0, 1, 2, 1]


@pytest.mark.parametrize(
    ("text", "features"),
    [
        (None, {}), ("", {}), ("{", {}), ("[1]", {}), ('{"features": null}', {}), ('{"info": {}}', {}),
        ('{"features": {"a": {"names": ["x"]}, "b": 3}}', {"a": {"names": ["x"]}}),
        (b'{"info": {"features": {"a": {}}}}', {"a": {}}),
    ],
)  # fmt: skip
def test_features_that_are_told_beside_a_table(text: str | bytes | None, features: dict) -> None:
    assert features_of(text) == features


def test_columns_are_found_by_their_usual_names() -> None:
    assert image_column(["id", " Path ", "IMG"], None, "t") == "IMG"  # the most telling of the usual names
    assert image_column(["Image", "image"], None, "t") == "Image"  # the first of two
    assert label_column(["a", "Target", "CLASS"], None, "t") == "CLASS"
    assert label_column(["a"], None, "t") is None
    assert label_column(["a", "b"], "b", "t") == "b"
