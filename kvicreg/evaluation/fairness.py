"""Does the encoder serve every group? Accuracy, spectrum and effective rank by group, and the worst gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvicreg.evaluation.intervals import Interval, bootstrap_interval
from kvicreg.measures.spectrum import effective_rank, spectrum


@dataclass(frozen=True)
class Group:
    """One group's share of the test images."""

    name: str
    images: int
    accuracy: Interval
    effective_rank: float
    eigenvalues: list[float]  # of the covariance of the group's features, the largest 50


@dataclass(frozen=True)
class GroupReport:
    """All groups, and the gap in accuracy between the best and the worst served."""

    groups: list[Group]
    best: str
    worst: str
    gap: float


def by_group(correct: Tensor, features: Tensor, groups: Sequence[str], *, seed: int = 0) -> GroupReport:
    """Split per-image scores (m,) and features (m, q) by the group of each test image."""
    if not len(correct) == len(features) == len(groups):
        raise ValueError(
            f"groups must name the group of each of the {len(correct)} test images, got {len(groups)} names"
        )
    reports = []
    for name in sorted(set(groups)):
        members = torch.tensor([i for i, group in enumerate(groups) if group == name])
        eigenvalues = spectrum(features[members])
        reports.append(
            Group(
                name,
                len(members),
                bootstrap_interval(correct[members], seed=seed),
                effective_rank(eigenvalues),
                eigenvalues[:50].tolist(),
            )
        )
    best, worst = (choose(reports, key=lambda g: g.accuracy.value) for choose in (max, min))
    return GroupReport(reports, best.name, worst.name, best.accuracy.value - worst.accuracy.value)
