"""Groups: who is served worse."""

import torch

from kvicreg.evaluation.fairness import by_group


def test_the_worst_gap_and_the_rank_of_each_group_are_found():
    features = torch.cat([torch.randn(50, 4, generator=torch.Generator().manual_seed(0)), torch.ones(50, 4)])
    correct = torch.cat([torch.ones(50), torch.arange(50) % 2])
    report = by_group(correct, features, ["a"] * 50 + ["b"] * 50)
    assert (report.best, report.worst, report.gap) == ("a", "b", 0.5)
    assert report.groups[0].effective_rank > 3
    assert report.groups[1].effective_rank == 1
    assert [group.images for group in report.groups] == [50, 50]
