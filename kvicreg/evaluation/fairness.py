"""Does the encoder serve every group? Accuracy, spectrum and effective rank by group, and the worst gap."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from kvicreg.data import ImageData
from kvicreg.evaluation.diagnostics import effective_rank, spectrum
from kvicreg.evaluation.intervals import Interval, bootstrap_interval


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
    found = []
    for name in sorted(set(groups)):
        members = torch.tensor([i for i, group in enumerate(groups) if group == name])
        eigenvalues = spectrum(features[members])
        found.append(
            Group(
                name,
                len(members),
                bootstrap_interval(correct[members], seed=seed),
                effective_rank(eigenvalues),
                eigenvalues[:50].tolist(),
            )
        )
    best, worst = (choose(found, key=lambda g: g.accuracy.value) for choose in (max, min))
    return GroupReport(found, best.name, worst.name, best.accuracy.value - worst.accuracy.value)


def read_groups(source: str, data: ImageData) -> list[str]:
    """The group of each image of `data`, from a text file with a name per line, or FILE.csv:COLUMN.

    The rows of a csv file are in the order of the images, unless it has a column "path": then they are found by
    the end of their path. COLUMN alone is looked up in groups.csv beside the images.
    """
    file, _, column = source.rpartition(":")
    folders = list(data.paths[0].parents)[:3] if data.paths else []
    beside = [folder / "groups.csv" for folder in folders if (folder / "groups.csv").is_file()]
    if file and Path(file).is_file():
        names = _column(Path(file), column, data)
    elif Path(source).is_file():
        names = [line.strip() for line in Path(source).read_text().splitlines() if line.strip()]
    elif beside:
        names = _column(beside[0], source, data)
    else:
        raise ValueError(
            f"--groups {source}: no such file; give a text file with one group name per {data.split} image, or "
            "FILE.csv:COLUMN, or put groups.csv with that column beside the images"
        )
    if len(names) != len(data):
        raise ValueError(
            f"--groups {source}: {len(names)} names for {len(data)} {data.split} images; one each is needed"
        )
    return names


def _column(file: Path, column: str, data: ImageData) -> list[str]:
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    known = list(rows[0]) if rows else []
    if column not in known:
        raise ValueError(f"{file} has no column {column!r}; it has {', '.join(known) or 'none'}")
    if "path" not in known or data.paths is None:
        return [row[column] for row in rows]
    group_of = {Path(row["path"]).parts[-2:]: row[column] for row in rows}
    missing = [path for path in data.paths if path.parts[-2:] not in group_of]
    if missing:
        raise ValueError(f"{file} has no row for {missing[0].name} (and {len(missing) - 1} more)")
    return [group_of[path.parts[-2:]] for path in data.paths]
