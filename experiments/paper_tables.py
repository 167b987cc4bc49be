"""The paper's three tables, ours beside its own numbers with the difference.

Table 1: ImageNet100 and TinyImageNet, with eight other methods; 2: MNIST and CIFAR-10; 3: from CIFAR-10 to STL-10.
Every kernel runs twice: as printed, with the weights the paper reports, and scaled, with our one default triple. Where
ImageNet100 or STL-10 can't be had, a part of TinyImageNet has a table under its own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, ClassVar, NamedTuple

from experiments.common import CONTROLS, Cell, Experiment, Job, Result, Row, tables
from experiments.common.correct import differences, differences_table, gather_correct
from experiments.common.subsets import stand_in
from kvicreg.runs.config import recipe

PAPER: dict[str, dict[str, float | str]] = {
    "mnist": {"vicreg": 97.15, "linear": 98.33, "rbf": 92.68, "laplacian": 98.50, "rq": 97.46},
    "cifar10": {"vicreg": 83.41, "linear": 86.08, "rbf": 81.13, "laplacian": 84.56, "rq": 86.18},
    "stl10": {"vicreg": 69.82, "linear": 71.38, "rbf": 67.21, "laplacian": 71.09, "rq": 72.34},
    "tiny-imagenet": {
        "simclr": 37.83, "swav": 35.39, "moco": 41.23, "byol": 36.31, "dino": 35.77, "simsiam": 27.96,
        "vicreg": "collapse", "linear": 37.48, "rbf": 38.21, "laplacian": 40.12, "rq": 40.38,
    },
    "imagenet100": {
        "simclr": 78.64, "swav": 74.36, "moco": 79.62, "byol": 80.88, "dino": 75.41, "simsiam": 78.80,
        "vicreg": 79.77, "barlow-twins": 80.63, "linear": 77.34, "rbf": 78.14, "laplacian": 79.92, "rq": 79.80,
    },
}  # fmt: skip
"""Top-1 accuracy of a linear probe, in percent, as the paper reports it."""
KERNELS = ("linear", "rbf", "laplacian", "rq")
PEERS = ("simclr", "swav", "moco", "byol", "dino", "simsiam", "barlow-twins")
LOSS = ("parametrization", "covariance", "include_diagonal", "threshold", "eps",
        "invariance_weight", "variance_weight", "covariance_weight")  # fmt: skip
"""What a recipe of the paper's says of the loss."""

RANK = "Rank is the effective rank of the encoder's features at the end of training: how many directions they use.\n"


NARROW = {
    "image_size": 64, "encoder": "resnet18", "width": 0.25, "stem": "imagenet", "images": None, "holdout": 0,
    "batch_size": 64,
}  # fmt: skip
"""The small budget on images of 64 pixels: all of them, in batches of 64, the command line's own on a CPU."""


class Source(NamedTuple):
    """Where a column of a table comes from."""

    data: str
    """What is trained on."""
    target: str | None = None
    """What is measured on, where it is other data."""
    like: str | None = None
    """The data of the paper whose settings these take, where the paper has not these."""

    @property
    def measured_on(self) -> str:
        return self.target or self.data


@dataclass(frozen=True)
class _Table(Experiment):
    sources: ClassVar[tuple[Source, ...]]
    with_peers: ClassVar[bool] = False
    epochs: ClassVar[int] = 1  # passes at the small budget, with peers
    models: ClassVar[tuple[str, ...]] = ()  # only these, where it says so

    def cells(self, job: Job) -> list[Cell]:
        return [cell for source in self.sources for seed in job.seeds for cell in self._of(job, source, seed)]

    def _of(self, job: Job, source: Source, seed: int) -> list[Cell]:
        full, data = job.budget == "full", source.like or source.data
        trained_on, target = stand_in(job, source.data), stand_in(job, source.target)
        if trained_on is None or (source.target and target is None):
            return []
        small = NARROW | {"epochs": self.epochs} if self.with_peers and job.budget == "small" else {}
        cells = []

        def add(model: str, form: str, base: str, **settings: Any) -> None:
            if self.models and with_form(model, form) not in self.models:
                return
            labels, changes = {"name": model, "form": form}, {"data": trained_on, "seed": seed, **small, **settings}
            cells.append(job.cell(labels, target=target, base=base if full else None, **changes))

        for kernel in KERNELS if job.budget != "smoke" else KERNELS[:2]:
            printed = recipe(f"paper-{data}-{kernel}")
            of_loss = {setting: printed[setting] for setting in LOSS if setting in printed}
            add(kernel, "as printed", f"paper-{data}-{kernel}", kernel=kernel, **of_loss)
            add(kernel, "scaled", data, kernel=kernel)
        others = self.with_peers and (job.budget != "smoke" or data == "imagenet100")
        for peer in ("vicreg", *(PEERS if others else ())):
            size = {"image_size": 64} if full and data == "tiny-imagenet" else {}
            add(peer, "", f"{peer}-{'imagenet100' if self.with_peers else data}", method=peer, **size)
        if data == "tiny-imagenet":  # where the paper saw VICReg collapse
            add("vicreg", "learning rate 3e-3", "vicreg-imagenet100", method="vicreg", learning_rate=3e-3)
        add("supervised", "", data, method="supervised")
        return cells

    def rows(self, job: Job, cells: Sequence[Cell]) -> list[Row]:
        return [beside_the_paper(row) for row in super().rows(job, cells)]

    def about(self, result: Result) -> dict[str, Any]:
        stored = gather_correct(result.job, self.stem, result.finished)
        above = differences(result.cells, stored, "vicreg", ("data",), named=lambda cell: with_form(**cell.labels))
        return {"above_vicreg": above} if above else {}

    def table(self, result: Result) -> str:
        """A table for each data set, ours beside the paper's, and what each method has above VICReg."""
        parts, of = [*result.opening(), RANK], tables.groups(tables.named(result.rows), "measured_on")
        for source in self.sources:
            data = source.measured_on
            models = self.models or tuple(PAPER.get(data, {}))
            parts += [f"### {data}\n", lines_of(data, of.get(data, []), models), ""]
        if rows := result.about.get("above_vicreg"):
            parts += ["### Above VICReg, in points\n", differences_table(rows, ("data",)), ""]
        elif len(tables.groups(result.trained, "seed")) > 1:
            rows = [row | {"name": with_form(row["name"], row["form"])} for row in tables.named(result.trained)]
            names = [name for name in tables.groups(rows, "name") if name != "vicreg"]
            margins = tables.margins_table(rows, "vicreg", names, "measured_on")
            parts += ["### Above VICReg, in points, seed by seed\n", margins, ""]
        return "\n".join(parts)


def with_form(name: str, form: str) -> str:
    """What a row is called among differences: its model, with its form unless that is ours."""
    return f"{name}, {form}" if form not in ("", "scaled") else name


def lines_of(data: str, rows: Sequence[Row], models: Sequence[str]) -> str:
    """A line for each model and form: ours, its cost, and the paper's; controls first, kernels last."""
    of = tables.groups(({"form": "", **row} for row in rows), "name", "form")
    of |= {(name, ""): [] for name in PAPER.get(data, {}) if name in models and name not in {name for name, _ in of}}

    def average(rows: Sequence[Row], key: str, form: str) -> str:
        values = [row[key] for row in rows if row.get(key) is not None]
        return f"{mean(values):{form}}" if any(values) else ""

    lines = []
    for name, form in sorted(of, key=lambda key: (key[0] not in (*CONTROLS, "supervised"), key[0] in KERNELS)):
        same, paper = of[name, form], PAPER.get(data, {}).get(name, "")
        scores = [tables.percent(same, score) if same else "not run" for score in ("probe", "knn")]
        about = [average(same, "effective_rank", ".1f"), average(same, "seconds", ".0f")]
        lines.append([name, form, *scores, *about, paper, average(same, "difference", "+.1f")])
    heading = ["model", "form", "linear probe", "20-NN", "rank", "seconds", "the paper's", "difference"]
    return tables.markdown(heading, lines)


def beside_the_paper(row: Row) -> Row:
    """A row with the paper's number and ours less it, in percentage points."""
    measured_on = row["config"].get("target") or row["data"]
    paper = PAPER.get(measured_on, {}).get(tables.name_of(row))
    difference = round(100 * row["probe"] - paper, 2) if isinstance(paper, float) and "probe" in row else None
    return {**row, "measured_on": measured_on, "paper": paper, "difference": difference}


class Table1(_Table, name="table1"):
    """The paper's Table 1: ImageNet100 and TinyImageNet, with eight other methods."""

    sources: ClassVar[tuple[Source, ...]] = (
        Source("tiny-imagenet"),
        Source("tiny-imagenet-100", like="imagenet100"),
        Source("imagenet100"),
    )
    with_peers = True
    usual_seeds = (0,)


class Table1Longer(Table1, name="table1-3-epochs"):
    """Where the paper saw VICReg collapse: three passes over TinyImageNet, VICReg beside two kernels.

    At the full budget, of some hundred passes, `table1` is all there is.
    """

    sources = (Source("tiny-imagenet"),)
    epochs = 3
    models = ("vicreg", "vicreg, learning rate 3e-3", "linear", "rbf")

    def cells(self, job: Job) -> list[Cell]:
        return [] if job.budget == "full" else super().cells(job)


class Table2(_Table, name="table2"):
    """The paper's Table 2: MNIST and CIFAR-10."""

    former = True
    sources = (Source("mnist"), Source("cifar10"))


class Table3(_Table, name="table3"):
    """The paper's Table 3: from CIFAR-10 to STL-10."""

    sources = (Source("cifar10", "stl-like"), Source("cifar10", "stl10"))
