"""Groups: who is served worse, and where group names come from."""

from pathlib import Path

import pytest
import torch

from kvicreg.data import ArrayData
from kvicreg.evaluation.fairness import by_group, read_groups


@pytest.fixture
def four() -> ArrayData:
    return ArrayData(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), split="test")


def test_the_worst_gap_and_the_rank_of_each_group_are_found():
    features = torch.cat([torch.randn(50, 4, generator=torch.Generator().manual_seed(0)), torch.ones(50, 4)])
    correct = torch.cat([torch.ones(50), torch.arange(50) % 2])
    report = by_group(correct, features, ["a"] * 50 + ["b"] * 50)
    assert (report.best, report.worst, report.gap) == ("a", "b", 0.5)
    assert report.groups[0].effective_rank > 3
    assert report.groups[1].effective_rank == 1
    assert [group.images for group in report.groups] == [50, 50]


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
