"""CSV and TSV files: separators, headers, labels and splits; and sentences that name the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvicreg.data.sources.base import ReadOptions
from kvicreg.data.sources.csv_table import CsvTable
from kvicreg.data.sources.folders import read_lines
from kvicreg.data.sources.lists import list_file


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str, split: str = "train", name: str = "t.csv", **options: str):
        (tmp_path / name).write_text(text)
        return CsvTable.open(tmp_path / name, split, ReadOptions.of(**options))

    return read


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("image,label\na.png,x\nb.png,y\n", "t.csv"),
        ("image;label\na.png;x\nb.png;y\n", "t.csv"),
        ("image\tlabel\na.png\tx\nb.png\ty\n", "t.TSV"),
        ("image;label\na.png;x\nb.png;y\n", "t.tsv"),
        (' Image , "Label"\n# a comment\n\n , \na.png , "x"\n"b.png",y \n', "t.csv"),
        ("a.png,x\nb.png,y\n", "t.csv"),
        ("label,more,path\nx,1;2,a.png\ny,;,b.png\n", "t.csv"),
    ],
)
def test_rows_whatever_separates_them(read, tmp_path: Path, text: str, name: str) -> None:
    listing = read(text, name=name)
    assert list(listing.paths) == [tmp_path / "a.png", tmp_path / "b.png"]
    assert (listing.labels.tolist(), listing.class_names) == ([0, 1], ["x", "y"])


def test_names_with_commas_make_a_list(read, tmp_path: Path) -> None:
    listing = read("a, b.png\nc.png\n")
    assert list(listing.paths) == [tmp_path / "a, b.png", tmp_path / "c.png"]
    assert listing.labels is None


def test_columns_that_are_named_make_the_first_row_a_header(read, tmp_path: Path) -> None:
    listing = read("x.png,y\na.png,1\nb.png,0\n", image_column="x.png", label_column="y")
    assert (list(listing.paths), listing.labels.tolist()) == ([tmp_path / "a.png", tmp_path / "b.png"], [1, 0])
    assert list(read("x.png,image\n1,a.png\n", label_column="x.png").paths) == [tmp_path / "a.png"]


ONLY = "has only 'train'; give the 'test' images a file of their own"
NO_LABEL = "{file}: some rows have no label in column 'label'; give all or none"
TABLE = "path,label,Split\na.png,z, Train\nb.png,y,validation\nc.png,x,train\nd.png,,unlabelled\n"


@pytest.mark.parametrize(
    ("split", "names", "numbers"), [("train", ["a", "c"], [3, 1]), ("val", ["b"], [2]), ("test", ["b"], [2])]
)
def test_splits_share_the_numbers_of_their_labels(read, split: str, names: list[str], numbers: list[int]) -> None:
    listing = read(TABLE, split)
    assert [path.stem for path in listing.paths] == names
    assert (listing.labels.tolist(), listing.class_names) == (numbers, ["", "x", "y", "z"])
    assert listing.notes == ("images from column 'path', labels from column 'label'",)


@pytest.mark.parametrize(
    ("text", "split", "message"),
    [
        ("", "train", "{file}: there is no image in the table"),
        ("image,label\n", "train", "{file}: there is no image in the table"),
        ("image,split\na.png,train\n", "test", "{file}: there is no image in the table of the split 'test'"),
        ("image\na.png\n", "test", f"split: a CSV table without a column 'split' {ONLY}"),
        ("a.png\n", "test", f"split: a CSV table without a header {ONLY}"),
        ("image,label\na.png,x\nb.png,\n", "train", NO_LABEL),
        ("image,label\na.png,x\nb.png,y\nc.png\n", "train", "{file}: row 4 has 1 cells, expected 2 as its header"),
        ("a.png,x\nb.png\n", "train", "{file}: some lines have a label and some have none; give all or none"),
        ("what,label\nx,y\n", "train", "image_column: no column of {file} is called image or path; it has what, label"),
        (TABLE, "unlabelled", NO_LABEL),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_the_file(read, tmp_path: Path, text: str, split: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message.format(file=tmp_path / 't.csv'))}$"):
        read(text, split)


def test_a_table_without_labels_tells_so(read) -> None:
    listing = read("image,x\na.png,1\n")
    assert (listing.labels, listing.class_names) == (None, None)
    assert listing.notes == ("images from column 'image'; no column of labels",)


def test_text_is_read_as_utf_8_with_or_without_its_mark(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeffä.png,x\n".encode())
    assert read_lines(file) == ["ä.png,x"]
    assert list_file(file).paths == [tmp_path / "ä.png"]
    assert read_lines(tmp_path / "none.txt") == []
    file.write_bytes(b"\xff\xfea")
    with pytest.raises(ValueError, match=rf"^{file}: expected text in UTF-8, got other bytes$"):
        read_lines(file)


def test_a_line_of_a_list_that_names_no_image_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x.png , dog \n" + "z" * 300)
    with pytest.raises(ValueError, match=rf"expected 'image' or 'image,label' on each line, got '{'z' * 200}'$"):
        list_file(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text(" x.png , dog \n#y.png\nz.png\tcat, not dog\n")
    listing = list_file(tmp_path / "a.txt")
    assert (listing.paths, listing.class_names) == ([tmp_path / "x.png", tmp_path / "z.png"], ["cat, not dog", "dog"])
