"""Where the names of groups come from."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kvicreg.data import ArrayData
from kvicreg.data.given import given_name
from kvicreg.data.groups import read_groups
from kvicreg.data.options import DataOptions


@pytest.fixture
def four() -> ArrayData:
    return ArrayData(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), split="test")


def test_names_come_from_lines_or_from_a_column(tmp_path: Path, four):
    (tmp_path / "groups.txt").write_text("a\nb\nb\na\n")
    assert read_groups(str(tmp_path / "groups.txt"), four) == ["a", "b", "b", "a"]
    (tmp_path / "table.csv").write_text("who,age\nx,1\ny,2\ny,3\nx,4\n")
    assert read_groups(f"{tmp_path / 'table.csv'}:who", four) == ["x", "y", "y", "x"]


def test_rows_with_paths_are_matched_to_the_images(tmp_path: Path, four):
    four.paths = [tmp_path / "test" / "c" / f"{k}.png" for k in range(4)]
    (tmp_path / "groups.csv").write_text("path,who\nc/3.png,d\nc/0.png,a\nc/1.png,b\nc/2.png,c\n")
    assert read_groups("who", four) == ["a", "b", "c", "d"]


def test_wrong_groups_are_named(tmp_path: Path, four):
    (tmp_path / "groups.txt").write_text("a\nb\n")
    with pytest.raises(ValueError, match="2 names for 4 test images"):
        read_groups(str(tmp_path / "groups.txt"), four)
    (tmp_path / "table.csv").write_text("who\na\n")
    with pytest.raises(ValueError, match="no column 'age'; it has who"):
        read_groups(f"{tmp_path / 'table.csv'}:age", four)
    with pytest.raises(ValueError, match="one group name per test image"):
        read_groups("sex", four)


def test_groups_follow_the_images_that_are_trained_on(tmp_path: Path):
    images = np.arange(10, dtype=np.uint8)[:, None, None] * np.ones((1, 4, 4), np.uint8)
    np.save(tmp_path / "a.npy", images)
    (tmp_path / "groups.txt").write_text("\n".join(f"g{k}" for k in range(10)))
    for settings in ({}, {"images": 4}, {"holdout": 3}, {"images": 2, "holdout": 3}):
        options = DataOptions.of(data=str(tmp_path / "a.npy"), **settings)
        data = options.load()
        numbers = data.fetch(torch.arange(len(data)))[:, 0, 0, 0].tolist()
        assert options.groups(str(tmp_path / "groups.txt"), data) == [f"g{number}" for number in numbers]
        assert data.loaded_by is options


def test_an_image_without_a_row_is_named(tmp_path: Path, four):
    four.paths = [tmp_path / "test" / "c" / f"{k}.png" for k in range(4)]
    (tmp_path / "groups.csv").write_text("path,who\nc/3.png,d\nc/0.png,a\n")
    with pytest.raises(ValueError, match=r"groups\.csv has no row for 1\.png \(and 1 more\)$"):
        read_groups("who", four)
    (tmp_path / "groups.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="expected text in UTF-8, got other bytes"):
        read_groups(str(tmp_path / "groups.txt"), four)


@pytest.mark.parametrize(("source", "name"), [("python:mine (a) (10 images)", "mine (a)"), ("mnist", None)])
def test_the_name_of_images_that_were_given(source: str, name: str | None):
    assert given_name(source) == name
