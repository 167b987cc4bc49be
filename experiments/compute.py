"""Accuracy against compute: all of CIFAR-10 for 1, 3, 10 and 30 epochs, each budget with a schedule of its own.

Does a margin over VICReg hold, grow or vanish with compute? Over images seen, and over core-seconds, which are the
method's measured cost of an image (the median over its runs that were not cut short) times the images.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any, Literal

from torch import nn

from experiments.common import CONTROLS, Cell, Experiment, Job, Result, Row, tables
from experiments.common.cells import accuracies
from experiments.common.correct import (
    SINGLE,
    differences,
    differences_table,
    gather_correct,
    margin_changes,
    margin_text,
)
from experiments.common.drawing import GREY, legend, look, panels
from experiments.common.job import write
from experiments.defaults_vs_vicreg import PUBLISHED, TUNED
from experiments.study import tuned

EPOCHS = {"smoke": (1, 2), "small": (1, 3, 10, 30), "full": (30, 100, 300)}
CONTENDERS: dict[str, dict[str, Any]] = {
    PUBLISHED: {"method": "vicreg"},
    "rbf": {"kernel": "rbf"},
    "rbf, per view": {"kernel": "rbf", "spectrum": "per-view", "bandwidth": "median"},
    "linear": {"kernel": "linear"},
    "rq": {"kernel": "rq"},
    "rbf+linear": {"kernel": "rbf+linear"},
    "simclr": {"method": "simclr"},
    "barlow-twins": {"method": "barlow-twins"},
    "byol": {"method": "byol"},
    "supervised": {"method": "supervised"},
}
ENCODERS: dict[str, dict[str, Any]] = {
    "small-cnn": {},
    "resnet18": {"encoder": "resnet18", "width": 0.5, "stem": "small", "batch_size": 64},
}
IN_BRACKETS = (
    "In brackets core-seconds: the median cost of an image over a method's runs, times the images. Machines differ: "
    "the same run has taken up to 1.7 times as long on another, so that costs 10 % apart are level."
)
FORMS = [name for name, settings in CONTENDERS.items() if "kernel" in settings]


@dataclass(frozen=True)
class Compute(Experiment, name="compute"):
    """Accuracy against compute: every method for 1, 3, 10 and 30 epochs of all of CIFAR-10.

    The longest budget has one seed, but for RBF and VICReg as published and where --epochs names it. Differences to
    VICReg are over the same seeds and test images.

    Examples:
        python -m experiments compute --out docs/results --part 1/2
        python -m experiments compute --encoder resnet18 --epochs 8 16 --only-names rbf "vicreg, published" --seeds 0
    """

    columns = ("core_seconds",)
    of_controls = False
    few = {"only_names": (PUBLISHED, "rbf")}

    only_names: tuple[str, ...] = ()
    """Which of the contenders; by default all."""
    data: str = "cifar10"
    """Data set."""
    epochs: tuple[int, ...] = ()
    """Passes over the images, in place of the budget's."""
    encoder: Literal["small-cnn", "resnet18"] = "small-cnn"
    """The budget's small CNN, or a ResNet-18 of half the width for small images, in batches of 64: the table is then
    resnet18-compute."""
    study: Path | None = None
    """Result file of the study, which has VICReg's tuned weights; by default OUT/study.json."""

    @property
    def stem(self) -> str:
        return self.name if self.encoder == "small-cnn" else f"{self.encoder}-{self.name}"

    def cells(self, job: Job) -> list[Cell]:
        weights = tuned(self.study or job.out / "study.json")
        contenders = CONTENDERS | ({TUNED: {"method": "vicreg", **weights}} if weights else {})
        contenders = {name: contenders[name] for name in self.only_names or contenders}
        shared = ENCODERS[self.encoder] | ({"images": None, "holdout": 0} if job.budget == "small" else {})
        budgets = self.epochs or EPOCHS[job.budget]
        return [
            job.cell({"name": name, "epochs": epochs}, data=self.data, seed=seed, epochs=epochs, **shared, **settings)
            for epochs, seed, (name, settings) in product(budgets, job.seeds, contenders.items())
            if self.epochs or epochs < budgets[-1] or seed == job.seeds[0] or name in (PUBLISHED, "rbf")
        ]

    def train(self, job: Job, cell: Cell, folder: Path, **more: Any) -> None:
        before, fresh = time.process_time(), not folder.exists()
        super().train(job, cell, folder, **more)
        if fresh:
            write(folder / "core-seconds.json", time.process_time() - before)

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        row = super().measure(job, cell, encoder)
        if self.encoder != "small-cnn":  # as the papers do, whose numbers it is to be read beside
            row["probe_all"] = accuracies(encoder, replace(cell, probe_images=10**9))["probe"]
        return row

    def measured(self, job: Job, cell: Cell) -> Row:
        row, path = super().measured(job, cell), job.runs / cell.name / "core-seconds.json"
        return row | {"core_seconds": json.loads(path.read_text()) if path.is_file() else None}

    def about(self, result: Result) -> dict[str, Any]:
        stored = gather_correct(result.job, self.stem, result.finished)
        of_forms = [cell for cell in result.cells if cell.labels["name"] in (*FORMS, TUNED)]
        return {
            "above_vicreg": differences(result.cells, stored, PUBLISHED, ("epochs",)),
            "above_tuned": differences(of_forms, stored, TUNED, ("epochs",)),
            "margin_changes": margin_changes(result.cells, stored, PUBLISHED, "epochs"),
            "core_seconds_per_image": costs(result.trained),
        }

    def table(self, result: Result) -> str:
        parts = result.opening(intervals=False)
        if result.trained:
            scores = scores_table(result)
            single = " †: one seed where others have more." if "†" in scores else ""
            parts += [f"Runs: {seeds(result)}.{single} {IN_BRACKETS}\n", scores, ""]
            parts += all_labels(result.trained)
            for key, rival in {"above_vicreg": "as published", "above_tuned": "with tuned weights"}.items():
                if rows := result.about[key]:
                    parts += [f"### Above VICReg {rival}, in points\n", differences_table(rows, ("epochs",)), ""]
        if changes := [row for row in result.about["margin_changes"] if row["name"] in FORMS]:
            parts += ["### How the kernels' margin changes with training, in points\n", changes_table(changes), ""]
        return "\n".join(parts)

    def figure(self, result: Result) -> None:
        if len(by_epochs(result)) > 1:
            encoder = {"small-cnn": "a small CNN", "resnet18": "a ResNet-18 of half the width"}[self.encoder]
            draw(result, result.job.out / self.stem, f"Accuracy against compute, all of CIFAR-10: {encoder}")


def by_epochs(result: Result) -> list[tuple[int, list[Row]]]:
    """The trained rows of each budget, the shortest first."""
    return sorted(tables.groups(result.trained, "epochs").items())


def seeds(result: Result) -> str:
    """How many seeds each budget has, which may differ by method."""
    budgets: dict[str, list[str]] = {}
    for epochs, rows in by_epochs(result):
        counts = [len(tables.groups(same, "seed")) for same in tables.groups(rows, "name").values()]
        budgets.setdefault(" to ".join(map(str, sorted({min(counts), max(counts)}))), []).append(str(epochs))
    counted = {count: "one seed" if count == "1" else f"{count} seeds" for count in budgets}
    return "; ".join(f"{counted[count]} for {', '.join(epochs)} epochs" for count, epochs in budgets.items())


def costs(rows: Sequence[Row]) -> dict[str, float]:
    """Core-seconds for one image of one epoch, by name: the median over runs that were measured from start to end."""
    of = tables.groups((row for row in rows if row.get("core_seconds")), "name")
    return {name: median(row["core_seconds"] / images_seen(row) for row in same) for name, same in of.items()}


def images_seen(row: Row) -> int:
    """Images of training times epochs."""
    config = row["config"]
    return int((config.get("images") or 50_000 - config["holdout"]) * row["epochs"])


def scores_table(result: Result) -> str:
    """Linear probe / 20-NN of each method at each budget, with its core-seconds; † where it has one seed of several."""
    cost, budgets = costs(result.trained), [epochs for epochs, _ in by_epochs(result)]
    of = tables.groups(result.trained, "name", "epochs")
    most = max(map(len, of.values()))

    def text(name: str, epochs: int) -> str:
        if not (same := of.get((name, epochs))):
            return ""
        seconds = f" ({cost[name] * images_seen(same[0]):.0f})" if name in cost else ""
        mark = " †" if len(same) == 1 < most else ""
        return f"{100 * tables.average(same):.1f} / {100 * tables.average(same, 'knn'):.1f}{seconds}{mark}"

    names = sorted(tables.groups(result.trained, "name"), key=lambda name: -max(map(tables.average, of_name(of, name))))
    lines = [[name, *(text(name, epochs) for epochs in budgets)] for name in names]
    for name, same in tables.groups((row for row in result.rows if row["method"] in CONTROLS), "method").items():
        lines.append([name, f"{100 * tables.average(same):.1f} / {100 * tables.average(same, 'knn'):.1f}"])
        lines[-1] += [""] * (len(budgets) - 1)
    return tables.markdown(["linear probe / 20-NN", *(f"epochs: {epochs}" for epochs in budgets)], lines)


def all_labels(rows: Sequence[Row]) -> list[str]:
    """A sentence for each budget that has linear probes on the labels of all training images."""
    parts = []
    for epochs, same in sorted(tables.groups((row for row in rows if "probe_all" in row), "epochs").items()):
        of = tables.groups(same, "name")
        scores = ", ".join(f"{name} {100 * tables.average(some, 'probe_all'):.1f}" for name, some in of.items())
        parts.append(f"Linear probe on the labels of all training images, {epochs} epochs: {scores}.\n")
    return parts


def changes_table(rows: Sequence[Row]) -> str:
    """A line for each name and score, a column for each budget: its margin less that of the shortest budget."""
    of, budgets = tables.groups(rows, "name", "score"), sorted({row["to"] for row in rows})
    lines = []
    for (name, score), same in of.items():
        at = {row["to"]: margin_text(row) for row in same}
        lines.append([name, tables.SCORES[score], *(at.get(epochs, "") for epochs in budgets)])
    heading = ["", "score", *(f"{epochs} epochs less {rows[0]['from']}" for epochs in budgets)]
    note = f" {SINGLE}" if any(row["seeds"] == 1 for row in rows) else ""
    return f"{tables.markdown(heading, lines)}\n\n95 % intervals by the same bootstrap, not corrected.{note}"


def of_name(of: dict[Any, list[Row]], name: str) -> list[list[Row]]:
    """The rows of a name, a list for each budget."""
    return [same for (other, _), same in of.items() if other == name]


def draw(result: Result, path: Path, title: str) -> None:
    """Linear probe over images seen and over core-seconds, and what is above VICReg at each budget."""
    cost, controls = costs(result.trained), tables.groups(result.rows, "method")
    detail = f"Linear probe on the test set, each length with its own schedule ({seeds(result)})."
    with panels(path, (16, 6.2), title, detail, 3, width_ratios=(1, 1, 1.5)) as ((images, seconds, above),):
        for name, same in tables.groups(result.trained, "name").items():
            of = sorted(tables.groups(same, "epochs").items())
            score = [100 * tables.average(rows) for _, rows in of]
            seen = [mean(map(images_seen, rows)) for _, rows in of]
            images.plot(seen, score, **line(name))
            if name in cost:
                seconds.plot([cost[name] * count for count in seen], score, **line(name))
        unlabelled = [100 * row["probe"] for row in result.trained if row["name"] != "supervised"] or [0.0, 100.0]
        low, high = min(unlabelled) - 4.5, max(unlabelled) + 1.5  # with labels, and from pixels, it is far off
        levels = {name: 100 * tables.average(same) for name, same in controls.items() if name in CONTROLS}
        for axes, label in ((images, "images seen"), (seconds, "core-seconds of training")):
            for name in (name for name, level in levels.items() if low < level < high):
                axes.axhline(levels[name], color=GREY, linestyle="-.", lw=1, label=name)
            axes.set(xscale="log", xlabel=label, ylabel="linear probe, %", ylim=(low, high))
            axes.set_xticks(ticks := round_numbers(*axes.get_xlim()), [f"{tick:,}" for tick in ticks])
            axes.xaxis.set_minor_formatter("")
            axes.grid(alpha=0.25)
        draw_above(result, above)
        legend((images,), ncols=6, handlelength=3.5)  # long enough to show dashes


def round_numbers(low: float, high: float) -> list[int]:
    """Ticks of a logarithmic axis: 1 and 3 times powers of ten, all digits where that leaves fewer than two."""
    numbers = [digit * 10**power for power in range(12) for digit in range(1, 10)]
    inside = [number for number in numbers if low <= number <= high]
    few = [number for number in inside if str(number)[0] in "13"]
    return few if len(few) > 1 else inside


def draw_above(result: Result, axes: Any) -> None:
    """What the kernels, and what comes near them, have above VICReg, with intervals; hollow where there is one seed."""
    near = (*FORMS, TUNED)
    rows = [row for row in result.about["above_vicreg"] if row["score"] == "probe" and row["name"] in near]
    budgets = sorted({row["epochs"] for row in rows})
    of = tables.groups(rows, "name")
    for number, (name, same) in enumerate(of.items()):
        shift = 0.09 * (number - (len(of) - 1) / 2)
        plot_above(axes, [budgets.index(row["epochs"]) + shift for row in same], same, name)
    axes.axhline(0, color=GREY, lw=1)
    axes.set_xticks(range(len(budgets)), map(str, budgets))
    axes.set(xlabel="epochs (hollow: one seed)", xlim=(-0.5, len(budgets) - 0.5))
    axes.set(ylabel="points above VICReg as published, 95 %")
    axes.grid(axis="y", alpha=0.25)


def plot_above(axes: Any, x: Sequence[float], rows: Sequence[Row], name: str) -> None:
    """The differences of a method, at these places, with their intervals."""
    ends = [[row["points"] - row["low"] for row in rows], [row["high"] - row["points"] for row in rows]]
    points, style = [row["points"] for row in rows], line(name)
    axes.errorbar(x, points, yerr=ends, capsize=2, markersize=5, **style)
    single = [number for number, row in enumerate(rows) if row["seeds"] == 1]
    hollow = style | {"linestyle": "", "label": None, "markerfacecolor": "white", "markersize": 5, "zorder": 3}
    axes.plot([x[number] for number in single], [points[number] for number in single], **hollow)


def line(name: str) -> dict[str, Any]:
    """How a method is drawn: what is a form or a tuning of another is dashed."""
    return look(name) | {"linestyle": "--" if "per view" in name or "tuned" in name else "-", "label": name}
