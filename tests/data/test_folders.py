"""Which files make a data set, and what their labels are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvicreg.data import load
from kvicreg.data.sources.folders import images_below, list_folder
from kvicreg.data.sources.lists import list_file

Writer = Callable[..., list[Path]]


def test_first_level_folders_are_the_classes(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path / "cat", 2)
    write_images(tmp_path / "bird" / "deeper", 3)
    listing = list_folder(tmp_path, "train")
    assert listing.class_names == ["bird", "cat"]
    assert listing.labels is not None
    assert listing.labels.tolist() == [0, 0, 0, 1, 1]


def test_a_flat_folder_has_no_labels(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path, 4)
    listing = list_folder(tmp_path, "train")
    assert (len(listing.paths), listing.labels, listing.class_names) == (4, None, None)


def test_images_beside_folders_mean_no_classes(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path, 1)
    write_images(tmp_path / "more", 2)
    listing = list_folder(tmp_path, "train")
    assert len(listing.paths) == 3
    assert listing.labels is None


@pytest.mark.parametrize("name", ["val", "test", "valid", "validation"])
def test_split_folders_share_the_numbers_of_the_classes(tmp_path: Path, write_images: Writer, name: str) -> None:
    for label in ("a", "b", "c"):
        write_images(tmp_path / "train" / label, 2)
    write_images(tmp_path / name / "c", 3)
    listing = list_folder(tmp_path, "test")
    assert listing.labels is not None
    assert listing.labels.tolist() == [2, 2, 2]
    assert listing.class_names == ["a", "b", "c"]


def test_an_unlabelled_split(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path / "train" / "a", 1)
    write_images(tmp_path / "unlabeled" / "whatever", 5)
    listing = list_folder(tmp_path, "unlabelled")
    assert len(listing.paths) == 5
    assert listing.labels is None


def test_a_class_that_training_lacks_is_an_error(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path / "train" / "a", 1)
    write_images(tmp_path / "val" / "z", 1)
    with pytest.raises(ValueError, match="not among those of training: z"):
        list_folder(tmp_path, "test")


def test_a_missing_split_says_what_to_do(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path, 1)
    with pytest.raises(ValueError, match=r"no 'test' split; put it into a subfolder val/ or test/"):
        list_folder(tmp_path, "test")


def test_an_empty_folder_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no image")
    with pytest.raises(ValueError, match=r"there is no image in it .*\.jpg"):
        list_folder(tmp_path, "train")


def test_hidden_files_are_left_out_and_order_is_sorted(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path / ".thumbnails", 2)
    write_images(tmp_path, 3)
    (tmp_path / "._000.png").write_bytes(b"")
    assert [p.name for p in images_below(tmp_path)] == ["000.png", "001.png", "002.png"]


def test_only_the_classes_of_the_list_are_read_in_its_order(tmp_path: Path, write_images: Writer) -> None:
    for label in ("n1", "n2", "n3"):
        write_images(tmp_path / "train" / label, 2)
    listing = list_folder(tmp_path, "train", ["n3", "n1"])
    assert listing.labels is not None
    assert [p.parent.name for p in listing.paths] == ["n3", "n3", "n1", "n1"]
    assert listing.labels.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("separator", ["\t", ","])
def test_list_file_with_labels(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"# comment\na/x.png{separator}dog\n\n/y, z.png{separator}cat\n")
    listing = list_file(path)
    assert listing.paths == [tmp_path / "a/x.png", Path("/y, z.png")]
    assert listing.class_names == ["cat", "dog"]
    assert listing.labels is not None
    assert listing.labels.tolist() == [1, 0]


def test_list_file_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("a.png,10\nb.png,9\n")
    assert list_file(path).class_names == ["9", "10"]


def test_list_file_without_labels(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("a,b.png\nc.JPG\n")
    listing = list_file(path)
    assert [p.name for p in listing.paths] == ["a,b.png", "c.JPG"]
    assert listing.labels is None


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no image in the list"), ("a.png,1\nb.png\n", "some lines have a label"), ("nonsense\n", "expected 'image'")],
)
def test_a_wrong_list_file_is_explained(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        list_file(path)


def write_tiny_imagenet(folder: Path, write_images: Writer) -> None:
    for wnid in ("n02", "n01"):
        write_images(folder / "train" / wnid / "images", 2, (64, 64))
    for path in write_images(folder / "val" / "images", 3, (64, 64)):
        path.rename(path.with_name(f"val_{path.stem}.JPEG"))
    write_images(folder / "test" / "images", 4, (64, 64))
    (folder / "wnids.txt").write_text("n02\nn01\n")
    (folder / "words.txt").write_text("n01\tgoldfish, Carassius auratus\nn02\tblack stork\nn99\tother\n")
    annotations = "val_000.JPEG\tn01\t0\t0\t9\t9\nval_002.JPEG\tn02\t0\t0\t9\t9\nval_001.JPEG\tn02\t0\t0\t9\t9\n"
    (folder / "val" / "val_annotations.txt").write_text(annotations)


def test_tiny_imagenet_layout(tmp_path: Path, write_images: Writer) -> None:
    write_tiny_imagenet(tmp_path, write_images)
    train, test = list_folder(tmp_path, "train"), list_folder(tmp_path, "test")
    assert train.labels is not None
    assert test.labels is not None
    assert train.class_names == ["black stork", "goldfish"]
    assert [p.parts[-3] for p in train.paths] == ["n02", "n02", "n01", "n01"]
    assert train.labels.tolist() == [0, 0, 1, 1]
    assert [p.name for p in test.paths] == ["val_000.JPEG", "val_001.JPEG", "val_002.JPEG"]
    assert test.labels.tolist() == [1, 0, 0]
    assert len(list_folder(tmp_path, "unlabelled").paths) == 4


def write_names(folder: Path, names: list[str], write_images: Writer) -> None:
    for name in names:
        write_images(folder / name, 1)


BY_MONTH = ["2023/jan/cat", "2023/jan/dog", "2023/feb/cat", "2023/feb/dog"]


@pytest.mark.parametrize(
    ("names", "level", "classes"),
    [
        (BY_MONTH, "auto", ["cat", "dog"]),  # the same names again in different folders
        (BY_MONTH, "2", ["feb", "jan"]),
        (BY_MONTH, "last", ["cat", "dog"]),
        (BY_MONTH, "1", ["2023"]),
        (BY_MONTH, "none", None),
        (["all/a", "all/b"], "auto", ["a", "b"]),  # one folder tells nothing apart
        (["cat/day", "cat/night", "dog/day", "dog/night"], "auto", ["cat", "dog"]),
        (["n1/images", "n2/images"], "auto", ["n1", "n2"]),
        (["a", "b/deeper"], "last", ["a", "deeper"]),
    ],
)
def test_classes_at_any_level(
    tmp_path: Path, write_images: Writer, names: list[str], level: str, classes: list[str] | None
) -> None:
    write_names(tmp_path, names, write_images)
    listing = list_folder(tmp_path, "train", class_level=level)
    assert listing.class_names == classes
    if classes is None or listing.labels is None:
        assert listing.notes == ("no classes: folders are not taken as labels (--class-level chooses)",)
        return
    for path, label in zip(listing.paths, listing.labels.tolist(), strict=True):
        assert classes[label] in path.parts
    assert listing.notes[0].startswith(f"{len(classes)} class")
    assert classes[0] in listing.notes[0]


def test_a_level_may_be_a_number(tmp_path: Path, write_images: Writer) -> None:
    write_names(tmp_path, BY_MONTH, write_images)
    assert load(tmp_path, class_level=2).class_names == ["feb", "jan"]


def test_a_level_that_some_image_lacks_is_told(tmp_path: Path, write_images: Writer) -> None:
    write_names(tmp_path, ["a", "b/c"], write_images)
    with pytest.raises(ValueError, match=r"class_level: a/000.png in .* has 1 folders above it, expected level 2"):
        list_folder(tmp_path, "train", class_level="2")
    with pytest.raises(ValueError, match="class_level: expected auto, last, none or a number from 1, got 'first'"):
        load(tmp_path, class_level="first")


def test_splits_take_the_level_of_training(tmp_path: Path, write_images: Writer) -> None:
    write_names(tmp_path / "train", BY_MONTH, write_images)
    write_names(tmp_path / "val", ["2023/mar/dog"], write_images)
    listing = list_folder(tmp_path, "val")
    assert listing.class_names == ["cat", "dog"]
    assert listing.labels is not None
    assert listing.labels.tolist() == [1]


def test_val_and_test_are_each_other_where_only_one_is_there(tmp_path: Path, write_images: Writer) -> None:
    write_names(tmp_path, ["train/a", "val/a"], write_images)
    assert list_folder(tmp_path, "val").paths == list_folder(tmp_path, "test").paths
    write_images(tmp_path / "test" / "a", 3)
    assert (len(list_folder(tmp_path, "val").paths), len(list_folder(tmp_path, "test").paths)) == (1, 3)


def test_a_test_folder_without_classes_is_not_taken_before_one_with_them(tmp_path: Path, write_images: Writer) -> None:
    write_names(tmp_path, ["train/a", "val/a"], write_images)
    write_images(tmp_path / "test", 3)
    assert list_folder(tmp_path, "test").class_names == ["a"]


def test_files_that_are_left_out_are_counted(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path / "a", 2)
    for name in ("x.HEIC", "y.heic", "z.CR2", ".hidden.raw", "README"):
        (tmp_path / "a" / name).write_bytes(b"")
    notes = list_folder(tmp_path, "train").notes
    assert "4 files are left out, no image that is read: 2 .heic, 1 .cr2, 1 without an ending" in notes
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.heic").write_bytes(b"")
    with pytest.raises(ValueError, match=r"there is no image in it .*; 1 file is left out, .*: 1 \.heic"):
        list_folder(tmp_path / "b", "train")


@pytest.mark.parametrize("split", ["val", "test", "unlabelled"])
def test_a_missing_split_names_the_folder(tmp_path: Path, write_images: Writer, split: str) -> None:
    write_images(tmp_path / "a", 1)
    with pytest.raises(ValueError, match=f"^split: {tmp_path} has no {split!r} split; put it into a subfolder"):
        list_folder(tmp_path, split)


def test_folders_are_sorted_as_paths_and_links_are_followed_once(tmp_path: Path, write_images: Writer) -> None:
    for name in ("a-b", "a", "a/deep"):
        write_images(tmp_path / name, 1)
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "a-b")
    others: list[str] = []
    (tmp_path / "a" / "x.txt").write_text("")
    names = [path.relative_to(tmp_path).as_posix() for path in images_below(tmp_path, others)]
    assert names == ["a/000.png", "a/deep/000.png", "a-b/000.png"]
    assert others == ["x.txt"]


def test_classes_of_a_folder_that_is_given_as_a_dot(tmp_path: Path, write_images: Writer, monkeypatch) -> None:
    write_images(tmp_path / "cat", 1)
    write_images(tmp_path / "dog", 1)
    monkeypatch.chdir(tmp_path)
    assert list_folder(Path(), "train").class_names == ["cat", "dog"]


def test_classes_of_a_list_that_are_not_there_are_told(tmp_path: Path, write_images: Writer) -> None:
    write_images(tmp_path / "train" / "x", 1)
    listing = list_folder(tmp_path, "train", ["none", "x"])
    assert (listing.labels.tolist(), listing.class_names) == ([1], ["none", "x"])
    with pytest.raises(ValueError, match=f"^{tmp_path}/train: there is no image in it of the classes a, b, c, ...$"):
        list_folder(tmp_path, "train", ["a", "b", "c", "d"])


def test_what_tiny_imagenet_lacks_is_told(tmp_path: Path, write_images: Writer) -> None:
    write_tiny_imagenet(tmp_path, write_images)
    (tmp_path / "words.txt").unlink()
    assert list_folder(tmp_path, "train").class_names == ["n02", "n01"]
    assert list_folder(tmp_path, "unlabelled")[1:3] == (None, None)
    (tmp_path / "test").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=rf"^split: {tmp_path} has no unlabelled images \(test/images\)$"):
        list_folder(tmp_path, "unlabelled")
    (tmp_path / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn99\n")
    with pytest.raises(ValueError, match=f"^{tmp_path}: there is no image in its 'val' split$"):
        list_folder(tmp_path, "val")
