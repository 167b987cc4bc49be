"""Where the names of groups come from."""

from pathlib import Path

import pytest
import torch

from kvicreg.data import ArrayData
from kvicreg.data.groups import read_groups


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
