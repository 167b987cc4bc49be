"""The index of shards: what it holds, what it refuses and in which words."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from source_files import encoded

from kvicreg.data import load, shard_index
from kvicreg.data.shard_index import ShardIndex, _label, find_index
from kvicreg.data.stores import Store


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("KVICREG_DATA", str(place))
    return place


def made(**changes: object) -> ShardIndex:
    """An index of three images that fill two shards; read from its file."""
    columns = {
        "shards": ["a.tar", "b.tar"], "shard_bytes": [100, 60], "starts": [0, 2, 3], "offset": [0, 50, 10],
        "size": [50, 50, 50], "label": [0, 1, -1], "checksum": [7, 8, 9], "classes": ["x", "y"], "channels": [0],
        "notes": np.array([], np.str_),
    }  # fmt: skip
    index = ShardIndex(**{name: np.array(values) for name, values in (columns | changes).items()})
    return ShardIndex.read(io.BytesIO(index.content()), "here")


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"checksum": np.zeros(0, np.uint32)}, {"shards": ["..a.tar", "x/b.tar"]}, {"notes": ["told"]},
        {"label": [0, 0, 0], "classes": np.array([], np.str_)}, {"starts": [0, 0, 3], "shard_bytes": [0, 100]},
    ],
)  # fmt: skip
def test_an_index_that_holds_together_is_read(changes: dict) -> None:
    index = made(**changes)
    assert (len(index), index.offset.tolist(), index.size.tolist()) == (3, [0, 50, 10], [50, 50, 50])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shards": [1, 2]}, "shards is int64 (2,)"),
        ({"classes": [1, 2]}, "classes is int64 (2,)"),
        ({"notes": [1]}, "notes is int64 (1,)"),
        ({"size": [[50, 50, 50]]}, "size is int64 (1, 3)"),
        ({"offset": [0.0, 50.0, 10.0]}, "offset is float64 (3,)"),
        ({"size": [50, 50]}, "its columns differ in length"),
        ({"label": [0, 1]}, "its columns differ in length"),
        ({"checksum": [7]}, "its columns differ in length"),
        ({"channels": [0, 0]}, "its columns differ in length"),
        ({"shard_bytes": [100]}, "its shards differ in number"),
        ({"starts": [0, 3]}, "its shards differ in number"),
        ({"starts": [1, 2, 3]}, "its shards do not add up"),
        ({"starts": [0, 2, 2]}, "its shards do not add up"),
        ({"starts": [0, 4, 3]}, "its shards do not add up"),
        ({"shards": ["/a.tar", "b.tar"]}, "a shard's name leads out of the folder"),
        ({"shards": ["a.tar", "x/../../b.tar"]}, "a shard's name leads out of the folder"),
        ({"offset": [-1, 50, 10]}, "an image lies beyond its shard"),
        ({"size": [50, 50, -1]}, "an image lies beyond its shard"),
        ({"offset": [0, 51, 10]}, "an image lies beyond its shard"),
        ({"size": [50, 50, 51]}, "an image lies beyond its shard"),
        ({"label": [0, 2, 1]}, "a label has no class"),
        ({"label": [0, 1, -2]}, "a label has no class"),
    ],
)
def test_an_index_that_does_not_is_refused_with_its_reason(changes: dict, reason: str) -> None:
    message = f"here: expected an index of shards that is whole ({reason}); delete it"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        made(**changes)


@pytest.mark.parametrize(
    ("content", "name", "wanted", "label"),
    [
        ("3\n", "a.cls", None, 3),
        (" cat ", "a.CLS", None, "cat"),
        ("", "a.cls", None, None),
        ("²", "a.cls", None, "²"),
        ("3", "a.cls", "id", None),
        ('{"label": 5}', "a.json", None, 5),
        ('{"x": 1, "class": "c"}', "a.JSON", None, "c"),
        ('{"label": [1]}', "a.json", None, None),
        ('{"label": 5, "id": 6}', "a.json", "id", 6),
        ("[1]", "a.json", None, None),
        ("{", "a.json", None, None),
        ('{"x": 1}', "a.json", None, None),
        ("[" * 99999, "a.json", None, None),
    ],
)
def test_the_label_of_a_member(content: str, name: str, wanted: str | None, label: object) -> None:
    assert _label(content.encode(), name, wanted, "here.tar") == label


def test_a_label_that_is_asked_for_and_missing_is_told() -> None:
    with pytest.raises(ValueError, match=r"^label_column: here\.tar/a\.json has no column 'y'; it has x$"):
        _label(b'{"x": 1}', "a.json", "y", "here.tar")
    assert _label(b"\xff", "a.cls", None, "here.tar") == "\ufffd"


def write_tar(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w") as archive:
        directory = tarfile.TarInfo("folder.png")
        directory.type = tarfile.DIRTYPE
        archive.addfile(directory)
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_an_index_is_made_from_the_headers_of_shards(tmp_path: Path) -> None:
    write_tar(tmp_path / "b.tar", **{"x/1.PNG": encoded(5), "x/1.cls": b"dog", "x/1.wav": b"x", ".2.png": encoded(6)})
    large = json.dumps({"label": "z", "more": "x" * 65536}).encode()
    first = {
        "x/1.a.json": b'{"label": "cat"}',
        "x/1.png": encoded(3),
        "2.jpg": encoded(4),
        "2.cls": b"ant",
        "2.txt": b"",
    }
    write_tar(tmp_path / "a.TAR", **first, **{"2.json": large})
    (tmp_path / "notes.md").write_text("no shard")
    index = find_index(Store(str(tmp_path)), None, None)
    assert index.shards.tolist() == ["a.TAR", "b.tar"]
    assert index.shard_bytes.tolist() == [(tmp_path / name).stat().st_size for name in index.shards]
    assert (index.starts.tolist(), index.label.tolist()) == ([0, 2, 3], [1, 0, 2])
    assert (index.classes.tolist(), index.channels.tolist(), len(index.checksum)) == (["ant", "cat", "dog"], [0], 0)
    assert index.notes.tolist() == ["1 file is left out, no image that is read: 1 .wav"]
    for shard, image, content in ((0, 0, 3), (0, 1, 4), (1, 2, 5)):
        raw = (tmp_path / index.shards[shard]).read_bytes()
        assert raw[index.offset[image] :][: index.size[image]] == encoded(content)


def test_an_index_that_was_made_is_kept_in_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tar(tmp_path / "a.tar", **{"1.png": encoded(1)})
    steps: list[object] = []
    scanned = shard_index._scanned
    monkeypatch.setattr(shard_index, "_scanned", lambda *given: steps.append(given) or scanned(*given))

    def find() -> ShardIndex:
        return find_index(Store(str(tmp_path)), None, None)

    first = find()
    (kept,) = (cache / "indexes").glob("*.npz")
    assert len(kept.stem) == 32
    assert vars(find()).keys() == vars(first).keys()
    assert len(steps) == 1
    kept.write_bytes(b"damaged")
    assert find().label.tolist() == [-1]
    assert len(steps) == 2
    assert find().notes.tolist() == []
    assert len(steps) == 2


def test_without_room_for_a_cache_the_headers_are_read_again(tmp_path: Path, monkeypatch) -> None:
    write_tar(tmp_path / "a.tar", **{"1.png": encoded(1)})
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("KVICREG_DATA", str(tmp_path / "file"))
    assert len(find_index(Store(str(tmp_path)), None, None)) == 1


def test_what_shards_lack_is_told_with_their_place(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    place = re.escape(str(tmp_path))
    with pytest.raises(ValueError, match=f"^{place}: there is no shard in it, expected .tar files$"):
        find_index(store, None, None)
    write_tar(tmp_path / "a.tar", **{"1.cls": b"x"})
    with pytest.raises(ValueError, match=f"^{place}: there is no image in its 1 shards$"):
        find_index(store, None, None)
    with pytest.raises(ValueError, match=rf"^{place}: the shard b\.tar is missing; bring it back$"):
        find_index(store, ["a.tar", "b.tar"], None)
    with pytest.raises(ValueError, match=rf"^{place}: the shard b\.tar is missing and 2 more; bring it back$"):
        find_index(store, ["b.tar", "c.tar", "d.tar"], None)
    (tmp_path / "a.tar").write_bytes(b"no tar file" * 100)
    with pytest.raises(ValueError, match=rf"^{place}: the shard a\.tar is damaged, or no tar file \("):
        find_index(store, None, None)


def test_shards_are_counted_and_labels_are_for_all_or_none(tmp_path: Path) -> None:
    write_tar(tmp_path / "train-0.tar", **{"1.png": encoded(1), "1.cls": b"7"})
    assert load(tmp_path).notes == (f"1 shard of {tmp_path}",)
    assert (load(tmp_path).labels.tolist(), load(tmp_path).class_names) == ([0], ["7"])
    write_tar(tmp_path / "train-1.tar", **{"1.png": encoded(2)})
    data = load(tmp_path)
    assert (data.labels, data.class_names) == (None, None)
    assert data.notes == (f"2 shards of {tmp_path}", "no labels: only some of the images have one")
    assert [str(path) for path in data.paths] == [f"{tmp_path}/train-{k}.tar/0" for k in (0, 1)]
    assert data.fetch(torch.tensor([1, 0]))[:, 0, 0, 0].tolist() == [2, 1]
