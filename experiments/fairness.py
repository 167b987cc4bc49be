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

import torch
from torch import Tensor, nn

from experiments.common import Cell, Experiment, Job, Result, Row, tables, write
from experiments.common.drawing import BLUE, GREY, ORANGE, panels
from experiments.common.versions import remark
from kvicreg.data import ArrayData, ImageData, hold_out, load, permutation
from kvicreg.evaluation.fairness import by_group
from kvicreg.evaluation.probes import linear_probe
from kvicreg.measures.features import extract
from kvicreg.runs import RunFolder
from kvicreg.storage import write_atomically
from kvicreg.training.run import train

Kind = Literal["classes", "style"]
MINORITY, SHARE = (3, 5, 8), 0.02
HELD_OUT = {"smoke": 60, "small": 10_000, "full": 10_000}
BASE = "without"
VARIANTS: dict[str, dict[str, Any]] = {
    BASE: {},
    "group terms": {"group_weight": 0.5},
    "group terms, own bandwidth": {"group_weight": 0.5, "group_bandwidth": True},
}
"""What is compared; training without knows of no groups."""
SHARED = ("data", "images", "kernel", "encoder", "width", "epochs", "batch_size", "projector_outputs")
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""97.5 % quantile of Student's t by the number of values."""


@dataclass(frozen=True)
class Fairness(Experiment, name="fairness"):
    """Train on images with a minority of 2 %, with and without group-fair terms, and compare the groups.

    18 runs, two to three minutes each on one core.

    Example:
        python -m experiments fairness --out docs/results
    """

    page = "fairness.md"
    columns = ("kind", "variant", "accuracy", "groups")
    with_controls = False
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

    def earlier_rows(self, job: Job, cells: Sequence[Cell]) -> dict[str, list[Row]]:
        path = job.out / "fairness" / "fairness.json"
        results = json.loads(path.read_text()) if path.is_file() else {}
        if results.get("settings") != self._shared(cells):
            return {}
        of = {(row["kind"], row["variant"], row["seed"]): row for row in results["rows"]}
        keys = {(*cell.labels.values(), cell.settings.engine.seed): cell for cell in cells}
        return {
            c.identity: [{**of[k], "method": "", "on": c.on, "config": c.config}] for k, c in keys.items() if k in of
        }

    def _shared(self, cells: Sequence[Cell]) -> dict[str, Any]:
        return {key: {**cells[0].config, "images": self.images}[key] for key in SHARED}

    def train(self, job: Job, cell: Cell, folder: Path) -> None:
        images = unbalanced(self.data, cell.labels["kind"], self.images, HELD_OUT[job.budget], job.root)
        if names := cell.settings.flat()["groups"]:
            write_atomically(Path(names), ("\n".join(images.train_groups) + "\n").encode())
        resume = RunFolder(folder).checkpoint("last").is_file()
        settings = cell.settings.replace(out=str(folder))
        train(settings, data=images.train, quiet=True, resume=resume, overwrite=not resume)

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        images = unbalanced(self.data, cell.labels["kind"], self.images, HELD_OUT[job.budget], job.root)
        x, t, seed = extract(encoder, images.fit), extract(encoder, images.test), cell.settings.engine.seed
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

    def write(self, result: Result) -> None:
        """Write fairness/fairness.json, once it is complete."""
        job, keys = result.job, ("kind", "variant", "seed", "accuracy", "groups", "fingerprint")
        if len(result.trained) < len(result.cells):
            job.say("\n".join(result.left_out() + result.unfinished()))
            return
        about = {"settings": self._shared(result.cells), "minority": list(MINORITY), "share": SHARE}
        rows = [{key: row[key] for key in keys if key in row} for row in result.rows]
        write(job.out / "fairness" / "fairness.json", {**about, "rows": rows})
        job.say(self.for_page(job.out))

    def figure(self, result: Result) -> None:
        if len(result.trained) == len(result.cells):
            draw(result.rows, result.job.out / "fairness" / "fairness")

    @classmethod
    def for_page(cls, results: Path) -> str:
        path = results / "fairness" / "fairness.json"
        return markdown(json.loads(path.read_text())) + remark(path)


@dataclass(frozen=True)
class Unbalanced:
    """Images to pretrain on, to fit a probe on and to score it on, each with the group of every image."""

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
    order = permutation(len(rest), seed=0, epoch=-4)
    few = round(SHARE * images)
    if kind == "style":
        rare = torch.arange(images) < few
        train = _negative(rest.subset(order[:images]), rare)
        return Unbalanced(train, _names(rare), _both(fit), _both(test), _names(torch.arange(2 * len(test)) % 2 == 1))
    rare_class = torch.isin(_labels(rest)[order], torch.tensor(MINORITY))
    chosen = torch.cat([order[rare_class][:few], order[~rare_class][: images - few]])
    if len(chosen) < images:
        raise ValueError(f"images: {data} has too few images for {images} of which {1 - SHARE:.0%} are the majority")
    groups = [_names(torch.isin(_labels(part), torch.tensor(MINORITY))) for part in (rest.subset(chosen), test)]
    return Unbalanced(rest.subset(chosen), groups[0], fit, test, groups[1])


def _labels(data: ImageData) -> Tensor:
    if data.labels is None:
        raise ValueError(f"{data.name!r} has no labels to make groups of and to probe with")
    return data.labels


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
    half = STUDENT.get(len(values), 2.0) * stdev(values) / math.sqrt(len(values))
    return f"{mean(values):{sign}.2f} ± {half:.2f}"


def markdown(results: dict[str, Any]) -> str:
    """A table for each kind of minority: accuracy and effective rank of both groups, and the change against without."""
    parts = []
    for (kind,), rows in tables.groups(results["rows"], "kind").items():
        of = {
            name: {row["seed"]: row["groups"] for row in same}
            for (name,), same in tables.groups(rows, "variant").items()
        }

        def values(variant: str, group: str, key: str, of: dict[str, Any] = of) -> dict[int, float]:
            scale = 100 if key == "accuracy" else 1
            return {seed: scale * groups[group][key] for seed, groups in of[variant].items()}

        lines = []
        for variant in of:
            line = [variant]
            for column in (("minority", "accuracy"), ("minority", "effective_rank"), ("majority", "accuracy")):
                here, base = values(variant, *column), values(BASE, *column)
                change = interval([here[seed] - base[seed] for seed in here if seed in base], "+")
                line += [interval([*here.values()]), "" if variant == BASE else change]
            lines.append([*line, interval([*values(variant, "majority", "effective_rank").values()])])
        titles = ["", "minority accuracy", "change", "minority rank", "change", "majority accuracy", "change"]
        seeds = len({row["seed"] for row in rows})
        parts.append(f"**Minority by {kind}**, {seeds} seeds:\n\n{tables.markdown([*titles, 'majority rank'], lines)}")
    settings = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in results["settings"].items())
    note = (
        "Mean over the seeds and half of its 95 % interval (Student's t); changes are paired by seed. Accuracy of a "
        f"linear probe in percent of the group's test images. Shared: {settings}."
    )
    return "\n\n".join([*parts, note])


def draw(rows: Sequence[Row], path: Path) -> None:
    """A panel for each kind of minority and each group, a line for each variant: the mean over the seeds."""
    kinds, variants = (list(dict.fromkeys(row[key] for row in rows)) for key in ("kind", "variant"))
    shown = [(kind, group) for kind in kinds for group in ("minority", "majority")]
    width = 1 + 3.7 * len(shown)
    detail = "Eigenvalues of a group's covariance over the first, mean over seeds: higher means more directions in use."
    with panels(
        path,
        (width, 4.6),
        "Spectra of the groups' test features",
        detail,
        len(shown),
        (0.9 / width, 0.99, 0.74, 0.14, 0.1),
    ) as axes:
        for panel, (kind, group) in zip(axes, shown, strict=True):
            for variant, colour, dash in zip(variants, (GREY, BLUE, ORANGE), ("-", "-", "--"), strict=False):
                same = [row for row in rows if (row["kind"], row["variant"]) == (kind, variant)]
                spectra = [row["groups"][group]["eigenvalues"] for row in same]
                curve = [mean(values) for values in zip(*([v / s[0] for v in s] for s in spectra), strict=True)]
                panel.plot(range(1, len(curve) + 1), curve, color=colour, linestyle=dash, label=variant)
            panel.set(title=f"{group} by {kind}", xlabel="direction", xscale="log", yscale="log")
            panel.grid(alpha=0.25)
        axes[0].set_ylabel("eigenvalue over the first")
        axes[0].legend(loc="lower left")
