"""Do group-fair terms keep a minority's spectrum? MNIST made unbalanced, with and without them.

Two ways to be a minority of 2 % of the training images: as classes (the digits 3, 5 and 8) and as a style (inked white
on black like the others, but negative). The probe is fitted on labelled training images that pretraining never saw,
in which no group is rare, and scored on the test set: what differs between groups is what the encoder has learnt.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

import numpy as np
import torch
from scipy.stats import t as student
from torch import Tensor, nn

from experiments.common import Cell, Job, Result, Row, tables
from experiments.common.drawing import BLUE, GREY, ORANGE, panels
from experiments.common.folder import FolderExperiment, Pairs, in_words
from experiments.common.versions import remark
from kvicreg.data import ArrayData, ImageData, hold_out, load, permutation
from kvicreg.evaluation.fairness import by_group
from kvicreg.evaluation.probes import linear_probe
from kvicreg.measures.features import extract
from kvicreg.storage import write_atomically

Kind = Literal["classes", "style"]
MINORITY, SHARE = (3, 5, 8), 0.02
BASE = "without"
VARIANTS: dict[str, dict[str, Any]] = {
    BASE: {},
    "group terms": {"group_weight": 0.5},
    "group terms, own bandwidth": {"group_weight": 0.5, "group_bandwidth": True},
}
"""What is compared; training without knows of no groups."""


@dataclass(frozen=True)
class Fairness(FolderExperiment, name="fairness"):
    """Train on images with a minority of 2 %, with and without group-fair terms, and compare the groups.

    18 runs, two to three minutes each on one core.

    Example:
        python -m experiments fairness --out docs/results
    """

    former = True
    page = "fairness.md"
    columns = ("kind", "variant", "accuracy", "groups")
    shared = ("data", "images", "kernel", "encoder", "width", "epochs", "batch_size", "projector_outputs")
    few = {"images": 64, "epochs": 2}

    data: str = "mnist"
    """Labelled data set of digits."""
    images: int = 20_000
    """Training images."""
    epochs: int = 10
    """Passes over them."""
    kernel: str = "rbf"
    """As for kvicreg train."""

    def cells(self, job: Job) -> list[Cell]:
        shared: dict[str, Any] = {"data": self.data, "epochs": self.epochs, "kernel": self.kernel, "holdout": 0}
        shared |= {"images": None, "batch_size": 64 if job.budget == "smoke" else 512}
        cells = []
        for seed, kind, (name, changes) in product(job.seeds, ("classes", "style"), VARIANTS.items()):
            groups = {"groups": str(job.runs / f"groups-{kind}-{self.images}.txt")} if changes else {}
            labels, variant = {"kind": kind, "variant": name}, f"{kind} {name} {self.images}"
            cells.append(job.cell(labels, variant=variant, seed=seed, **shared, **changes, **groups))
        return cells

    def settings_of(self, cell: Cell) -> dict[str, Any]:
        return super().settings_of(cell) | {"images": self.images}

    def unbalanced(self, job: Job, cell: Cell) -> Unbalanced:
        """The images of a cell."""
        held_out = 60 if job.budget == "smoke" else 10_000
        return unbalanced(self.data, cell.labels["kind"], self.images, held_out, job.root)

    def train(self, job: Job, cell: Cell, folder: Path, **more: Any) -> None:
        images = self.unbalanced(job, cell)
        if names := cell.settings.flat()["groups"]:
            write_atomically(Path(names), ("\n".join(images.train_groups) + "\n").encode())
        super().train(job, cell, folder, data=images.train)

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        images, seed = self.unbalanced(job, cell), cell.settings.engine.seed
        x, t = extract(encoder, images.fit), extract(encoder, images.test)
        probe = linear_probe(x, _labels(images.fit), t, _labels(images.test), seed=seed)
        groups = {
            group.name: {
                "accuracy": round(group.accuracy.value, 5),
                "effective_rank": round(group.effective_rank, 4),
                "images": group.images,
                "eigenvalues": [float(f"{value:.5g}") for value in group.eigenvalues],
            }
            for group in by_group(probe.correct, t, images.test_groups, seed=seed).groups
        }
        return {**cell.labels, "on": cell.on, "accuracy": round(probe.accuracy, 5), "groups": groups}

    @staticmethod
    def in_short(row: Row) -> str:
        return ", ".join(
            f"{name} {100 * group['accuracy']:.1f} % (effective rank {group['effective_rank']:.1f})"
            for name, group in row["groups"].items()
        )

    def content(self, job: Job, pairs: Pairs) -> dict[str, Any]:
        rows = [self.line(cell, row, **{key: row.get(key) for key in self.columns[2:]}) for cell, row in pairs]
        about = {"settings": self.settings_of(pairs[0][0]), "minority": list(MINORITY), "share": SHARE}
        return {**about, "rows": rows}

    def figure(self, result: Result) -> None:
        if len(result.trained) == len(result.cells):
            draw(result.rows, result.job.out / "fairness" / "fairness")

    @classmethod
    def for_page(cls, results: Path) -> str:
        path = results / "fairness" / "fairness.json"
        return markdown(json.loads(path.read_text())) + remark(path)


@dataclass(frozen=True)
class Unbalanced:
    """Images to pretrain on, to fit a probe on and to score it on, and the groups of the first and the last."""

    train: ImageData
    train_groups: list[str]
    fit: ImageData
    test: ImageData
    test_groups: list[str]


@cache
def unbalanced(data: str, kind: Kind, images: int, held_out: int, root: str | None = None) -> Unbalanced:
    """So many images of which 2 % belong to the minority, the same ones every time."""
    rest, fit = hold_out(load(data, root=root), held_out)
    test = load(data, "test", root=root)
    assert fit is not None
    order, few = permutation(len(rest), seed=0, epoch=-4), round(SHARE * images)
    if kind == "style":
        rare = torch.arange(images) < few
        negatives, twice = _negative(rest.subset(order[:images]), rare), torch.arange(2 * len(test)) % 2 == 1
        return Unbalanced(negatives, _names(rare), _both(fit), _both(test), _names(twice))
    rare_class = _is_rare(rest)[order]
    chosen = torch.cat([order[rare_class][:few], order[~rare_class][: images - few]])
    if len(chosen) < images:
        raise ValueError(f"images: {data} has too few images for {images} of which {1 - SHARE:.0%} are the majority")
    train = rest.subset(chosen)
    return Unbalanced(train, _names(_is_rare(train)), fit, test, _names(_is_rare(test)))


def _labels(data: ImageData) -> Tensor:
    if data.labels is None:
        raise ValueError(f"{data.name!r} has no labels to make groups of and to probe with")
    return data.labels


def _is_rare(data: ImageData) -> Tensor:
    return torch.isin(_labels(data), torch.tensor(MINORITY))


def _names(rare: Tensor) -> list[str]:
    return ["minority" if is_rare else "majority" for is_rare in rare.tolist()]


def _negative(data: ImageData, rare: Tensor) -> ArrayData:
    images = data.fetch(torch.arange(len(data)))
    images[rare] = 255 - images[rare]
    return ArrayData(images, data.labels, name=data.name, split=data.split, class_names=data.class_names)


def _both(data: ImageData) -> ArrayData:
    """Every image twice, as it is and as a negative."""
    twice = torch.arange(len(data)).repeat_interleave(2)
    return _negative(data.subset(twice), torch.arange(len(twice)) % 2 == 1)


def interval(values: Sequence[float], sign: str = "") -> str:
    """Mean and half of its 95 % interval, by Student's t; the mean alone of a single value."""
    if len(values) < 2:
        return f"{mean(values):{sign}.2f}"
    half = round(student.ppf(0.975, len(values) - 1), 3) * stdev(values) / math.sqrt(len(values))
    return f"{mean(values):{sign}.2f} ± {half:.2f}"


def markdown(results: dict[str, Any]) -> str:
    """A table for each kind of minority: accuracy and effective rank of both groups, and the change against without."""
    parts = []
    for kind, rows in tables.groups((row for row in results["rows"] if "error" not in row), "kind").items():
        titles = ["", "minority accuracy", "change", "minority rank", "change", "majority accuracy", "change"]
        seeds, table = len({row["seed"] for row in rows}), tables.markdown([*titles, "majority rank"], _lines(rows))
        parts.append(f"**Minority by {kind}**, {seeds} seeds:\n\n{table}")
    note = (
        "Mean over the seeds and half of its 95 % interval (Student's t); changes are paired by seed. Accuracy of a "
        f"linear probe in percent of the group's test images. Shared: {in_words(results['settings'])}."
    )
    return "\n\n".join([*parts, note])


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    of = {(row["variant"], row["seed"]): row["groups"] for row in rows}

    def values(variant: str, group: str, key: str) -> dict[int, float]:
        return {s: (100 if key == "accuracy" else 1) * g[group][key] for (v, s), g in of.items() if v == variant}

    lines = []
    for variant in tables.groups(rows, "variant"):
        line = [variant]
        for column in (("minority", "accuracy"), ("minority", "effective_rank"), ("majority", "accuracy")):
            here, base = values(variant, *column), values(BASE, *column)
            change = interval([here[seed] - base[seed] for seed in here if seed in base], "+")
            line += [interval([*here.values()]), "" if variant == BASE else change]
        lines.append([*line, interval([*values(variant, "majority", "effective_rank").values()])])
    return lines


def draw(rows: Sequence[Row], path: Path) -> None:
    """A panel for each kind of minority and each group, a line for each variant: the mean over the seeds."""
    of, shown = (
        tables.groups(rows, "kind", "variant"),
        [*product(tables.groups(rows, "kind"), ("minority", "majority"))],
    )
    title, size = "Spectra of the groups' test features", (1 + 3.7 * len(shown), 4.8)
    detail = "Eigenvalues of a group's covariance over the first, mean over seeds: higher means more directions in use."
    looks = dict(zip(VARIANTS, ((GREY, "-"), (BLUE, "-"), (ORANGE, "--")), strict=True))
    with panels(path, size, title, detail, len(shown), sharey=True) as ((*axes,),):
        for panel, (kind, group) in zip(axes, shown, strict=True):
            for variant, (colour, dash) in looks.items():
                spectra = np.array([row["groups"][group]["eigenvalues"] for row in of.get((kind, variant), ())])
                if len(spectra):
                    curve = (spectra / spectra[:, :1]).mean(0)
                    panel.plot(np.arange(1, len(curve) + 1), curve, color=colour, linestyle=dash, label=variant)
            panel.set(title=f"{group} by {kind}", xlabel="direction", xscale="log", yscale="log")
            panel.grid()
        axes[0].set_ylabel("eigenvalue over the first")
        axes[0].legend(loc="lower left")
