"""Splits and classes from names alone: what is chosen, and in which words it is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvicreg.data.sources.base import ReadOptions
from kvicreg.data.sources.layout import choose_split, find_classes, is_image_name, left_out
from kvicreg.data.sources.members import list_members, plain_name
from kvicreg.data.sources.tables import tables_of_split

NO_CLASSES = "no classes: folders are not taken as labels (--class-level chooses)"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a.HEIC"], "1 file is left out, no image that is read: 1 .heic"),
        (["README", "b.x", "a.x"], "3 files are left out, no image that is read: 2 .x, 1 without an ending"),
        (
            ["a.e", "a.d", "a.c", "a.b", "a.a"],
            "5 files are left out, no image that is read: 1 .a, 1 .b, 1 .c, 1 .d, 1 .e",
        ),
        (
            [*["x.z"] * 1000, "a.f", "a.e", "a.d", "a.c", "a.b", "a.a"],
            "1,006 files are left out, no image that is read: 1000 .z, 1 .a, 1 .b, 1 .c, 1 .d and 2 other kinds",
        ),
    ],
)
def test_what_is_left_out_is_told_by_its_endings(names: list[str], words: str) -> None:
    assert left_out(names) == (words,)
    assert left_out([]) == ()


@pytest.mark.parametrize("ending", ["jpg", "jpeg", "png", "bmp", "gif", "webp", "tif", "tiff", "ppm", "pgm", "PNG"])
def test_an_image_is_known_by_its_ending(ending: str) -> None:
    assert is_image_name(f"x.y.{ending}")
    assert not is_image_name(ending)
    assert not is_image_name(f"x.{ending}.txt")


@pytest.mark.parametrize(
    ("folders", "labelled", "split", "chosen"),
    [
        (["a", "b"], [], "train", ""),
        (["train", "test"], [], "train", "train"),
        (["training", "test"], [], "train", "training"),
        (["val", "test"], [], "val", "val"),
        (["val", "test"], [], "test", "test"),
        (["valid", "train"], [], "test", "valid"),
        (["validation", "test"], ["validation"], "test", "validation"),
        (["val", "validation"], ["validation"], "val", "validation"),
        (["unlabeled"], [], "unlabelled", "unlabeled"),
        (["unlabelled", "a"], [], "train", ""),
    ],
)
def test_the_folder_of_a_split(folders: list[str], labelled: list[str], split: str, chosen: str) -> None:
    assert choose_split(folders, labelled, split, "here") == chosen


@pytest.mark.parametrize(
    ("folders", "split", "wanted"),
    [
        (["a"], "val", "val/ or test/"),
        (["train"], "test", "val/ or test/"),
        (["train"], "unlabelled", "unlabelled/ or unlabeled/"),
        (["test"], "train", "train/ or training/"),
        (["validation"], "train", "train/ or training/"),
    ],
)
def test_a_split_that_is_missing_is_told_with_its_place(folders: list[str], split: str, wanted: str) -> None:
    message = f"^split: here has no {split!r} split; put it into a subfolder {wanted}$"
    with pytest.raises(ValueError, match=message):
        choose_split(folders, folders, split, "here")


@pytest.mark.parametrize(
    ("names", "level", "numbers", "note"),
    [
        (["a/1", "b/2", "a/3"], "auto", [0, 1, 0], "level 1: a, b"),
        (["a/1", "a/2"], "auto", [0, 0], "level 1: a"),
        (["x/a/1", "x/b/2"], "auto", [0, 1], "level 2: a, b"),
        (["x/y/a/1", "x/y/b/2"], "auto", [0, 1], "level 3: a, b"),
        (["x/a/1", "x/b/c/2"], "auto", [0, 1], "level 2: a, b"),
        (["x/a/c/1", "x/b/d/2"], "auto", [0, 1], "level 2: a, b"),
        (["x/a/c/1", "x/b/c/2"], "auto", [0, 1], "level 2: a, b"),
        (["x/a/c/1", "x/a/d/1", "x/b/c/2"], "auto", [0, 0, 1], "level 2: a, b"),
        (["x/a/c/1", "x/a/d/1", "x/b/c/2", "x/b/d/2"], "auto", [0, 1, 0, 1], "the last level: c, d"),
        (["x/a/c/1", "x/a/d/1", "x/b/c/2", "x/b/d/e/2"], "auto", [0, 0, 1, 1], "level 2: a, b"),
        (["a/c/1", "a/d/1", "b/c/2", "b/d/2"], "auto", [0, 0, 1, 1], "level 1: a, b"),
        (["a/c/1", "b/d/2"], "2", [0, 1], "level 2: c, d"),
        (["a/c/1", "b/2"], "last", [1, 0], "the last level: b, c"),
        (["d/1", "c/1", "b/1", "a/1"], "1", [3, 2, 1, 0], "level 1: a, b, c, d"),
        (["e/1", "d/1", "c/1", "b/1", "a/1"], "1", [4, 3, 2, 1, 0], "level 1: a, b, c, d, ..."),
        (["1", "a/2"], "auto", None, None),
        (["a/2"], "none", None, None),
    ],
)
def test_classes_and_how_they_were_told(names: list[str], level: str, numbers: list[int] | None, note: str) -> None:
    found = find_classes(names, None, level, "here")
    if numbers is None:
        assert found == (None, None, NO_CLASSES)
        return
    count = max(numbers) + 1
    of = "1 class" if count == 1 else f"{count} classes"
    assert found.note == f"{of}, the folders of {note} (--class-level chooses another)"
    assert (found.labels.tolist(), len(found.names)) == (numbers, count)


def test_the_classes_of_another_split_are_those_of_training() -> None:
    training = ["a/1", "b/1", "c/1"]
    found = find_classes(["c/9"], training, "auto", "here", "test")
    assert (found.labels.tolist(), found.names) == ([2], ["a", "b", "c"])
    assert find_classes(["9"], training, "auto", "here", "test") == (None, None, NO_CLASSES)
    assert find_classes(["z/9"], training, "auto", "here", "unlabelled") == (None, None, NO_CLASSES)
    with pytest.raises(ValueError, match="^here: these classes are not among those of training: d, e, f$"):
        find_classes(["g/1", "f/1", "e/1", "d/1", "a/1"], training, "auto", "here", "test")


@pytest.mark.parametrize(("name", "level"), [("a/1", "2"), ("1", "1"), ("1", "last")])
def test_an_image_without_a_folder_at_the_level_is_told(name: str, level: str) -> None:
    count = name.count("/")
    message = f"^class_level: {name} in here has {count} folders above it, expected level {level}$"
    with pytest.raises(ValueError, match=message):
        find_classes([name], None, level, "here")


def members(names: list[str], split: str = "train", **options: str):
    return list_members(Path("x.zip"), names, bytes, split, ReadOptions.of(**options))


def test_an_archive_without_its_common_folders_is_a_folder() -> None:
    names = ["top/in/b/2.png", "top/in/a/1.png", "top/in/a-b/3.png", "top/in/note.txt"]
    listing = members(names)
    assert [str(path) for path in listing.paths] == [
        f"x.zip/top/in/{name}" for name in ("a/1.png", "a-b/3.png", "b/2.png")
    ]
    assert (listing.labels.tolist(), listing.class_names, listing.read) == ([0, 1, 2], ["a", "a-b", "b"], bytes)
    assert listing.notes == (
        "3 classes, the folders of level 1: a, a-b, b (--class-level chooses another)",
        "1 file is left out, no image that is read: 1 .txt",
    )
    assert members(names, class_level="none").labels is None


@pytest.mark.parametrize("top", ["", "top/", "top/more/"])
def test_the_splits_of_an_archive(top: str) -> None:
    files = ("train/a/1.png", "train/b/2.png", "val/b/3.png", "test/4.png", "unlabelled/c/5.png")
    names = [f"{top}{file}" for file in files]
    for split, files, numbers in (
        ("train", ["train/a/1.png", "train/b/2.png"], [0, 1]),
        ("val", ["val/b/3.png"], [1]),
        ("test", ["val/b/3.png"], [1]),  # the one with classes
        ("unlabelled", ["unlabelled/c/5.png"], None),
    ):
        listing = members(names, split)
        assert [str(path) for path in listing.paths] == [f"x.zip/{top}{file}" for file in files]
        assert (None if listing.labels is None else listing.labels.tolist()) == numbers
        assert listing.class_names == (None if numbers is None else ["a", "b"])


@pytest.mark.parametrize(
    ("names", "split", "message"),
    [
        (["a/1.png"], "test", "split: x.zip has no 'test' split; put it into a subfolder val/ or test/"),
        (["val/1.png"], "train", "split: x.zip has no 'train' split; put it into a subfolder train/ or training/"),
        (["train/a/1.png", "val/z/1.png"], "val", "x.zip: these classes are not among those of training: z"),
        (["a.txt", ".b.png", "__MACOSX/c.png", "d/.e/f.png", "../g.png"], "train", "x.zip: there is no image in it"),
    ],
)
def test_what_an_archive_lacks_is_told_with_its_name(names: list[str], split: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        members(names, split)


def test_names_that_lead_out_of_an_archive_are_counted() -> None:
    bad = ["/a.png", "../b.png", "c/../../d.png", "e\\f.png", "g\0.png", ""]
    words = "left out, with a name that leads out of the archive"
    assert members(["a/1.png", bad[0]]).notes[1:] == (f"1 file is {words}",)
    assert members(["a/1.png", *bad]).notes[1:] == (f"6 files are {words}",)
    assert len(members(["a/1.png", *bad]).paths) == 1


def test_a_name_is_written_as_a_path_is() -> None:
    assert [plain_name(name) for name in ("./a//b.png", "a/./b.png", "a.png")] == ["a/b.png", "a/b.png", "a.png"]


@pytest.mark.parametrize(
    ("files", "split", "chosen"),
    [
        (["a.parquet", "b.parquet"], "train", [0, 1]),
        (["train-0.parquet", "test-0.parquet", "train_1.parquet"], "train", [0, 2]),
        (["data/validation.0.tar", "data/train.0.tar"], "test", [0]),
        (["val/0.tar", "test/0.tar"], "test", [1]),
        (["val/0.tar", "test/0.tar"], "val", [0]),
        (["training-1.tar", "more.tar"], "train", [0]),
    ],
)
def test_the_files_of_a_split_by_their_names(files: list[str], split: str, chosen: list[int]) -> None:
    assert tables_of_split("here", [Path(file) for file in files], split) == chosen


@pytest.mark.parametrize(
    ("files", "told"), [(["a.tar"], "none"), (["val-0.tar", "train-0.tar", "val-1.tar"], "train, val")]
)
def test_files_without_a_split_tell_what_they_have(files: list[str], told: str) -> None:
    message = f"^split: here has no 'unlabelled' split; the names of its files tell of {told}$"
    with pytest.raises(ValueError, match=message):
        tables_of_split("here", [Path(file) for file in files], "unlabelled")
