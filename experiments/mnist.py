"""All of MNIST by the shipped recipe: every kernel and VICReg, and the kernel that validation chooses.

The recipe `mnist` says how to train; 5,000 training images are held out. The same runs are scored on those and on the
test set: the kernel is chosen on the first, with probes on 10,000 labelled images, and reported on the second, with
probes on all that are not held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from experiments.common import Cell, Experiment, Job, Result, Row, tables
from experiments.defaults_vs_vicreg import KERNELS, PUBLISHED
from experiments.paper_tables import PAPER

HELD_OUT, EPOCHS = 5_000, 1
"""Training images to choose the kernel on; passes at the small budget, a twentieth of the recipe's."""


@dataclass(frozen=True)
class Mnist(Experiment, name="mnist"):
    """All of MNIST by the shipped recipe: every kernel, VICReg, and the kernel validation chooses.

    Examples:
        python -m experiments mnist --part 1/2 & python -m experiments mnist --part 2/2
        python -m experiments mnist --epochs 10 --names rbf "vicreg, published" --seeds 0
        python -m experiments mnist --epochs 10 --elastic 0.08 --names linear --seeds 0
    """

    former = True
    epochs: int | None = None
    """Passes over the images, in place of the budget's; the table is then called mnist-EPOCHS-epochs."""
    elastic: float = 0.0
    """How far views are bent too; the table's name then has elastic in it."""
    names: tuple[str, ...] = ()
    """Only these: kernels, "vicreg, published", supervised."""

    @property
    def stem(self) -> str:
        return "mnist" + "-elastic" * bool(self.elastic) + (f"-{self.epochs}-epochs" if self.epochs else "")

    def cells(self, job: Job) -> list[Cell]:
        shared: dict[str, Any] = {} if job.budget == "smoke" else {"base": "mnist", "holdout": HELD_OUT}
        if self.epochs or job.budget == "small":
            shared |= {"epochs": self.epochs or EPOCHS}
        if self.elastic:
            shared |= {"elastic": self.elastic}
        models: dict[str, dict[str, Any]] = {kernel: {"kernel": kernel} for kernel in KERNELS}
        models |= {PUBLISHED: {"method": "vicreg"}, "supervised": {"method": "supervised"}}
        names = set(self.names) or set(models)
        if unknown := names - set(models):
            raise ValueError(f"names: there is no {min(unknown)!r}; there are {', '.join(map(repr, models))}")
        return [
            job.cell({"name": name}, data="mnist", seed=seed, **shared, **changes)
            for seed in job.seeds
            for name, changes in models.items()
            if name in names
        ]

    def rows(self, job: Job, cells: Sequence[Cell]) -> list[Row]:
        """Those on the test set, then those on held-out images; seed by seed, raw pixels once."""
        test, validation = [], []
        for seed in job.seeds:
            same = [cell for cell in cells if cell.settings.engine.seed == seed]
            validation += super().rows(job, [replace(cell, on="validation") for cell in same])
            test += super().rows(job, [replace(cell, probe_images=10**9) for cell in same])
        rows = [*test, *validation]
        return [row for number, row in enumerate(rows) if row not in rows[:number]]

    def about(self, result: Result) -> dict[str, Any]:
        held_out = tables.groups((row for row in _on(result, "validation") if "probe" in row), "name")
        scores = {name: tables.average(same) for name, same in held_out.items() if name in KERNELS}
        best = max(scores, key=lambda kernel: scores[kernel], default=None)
        findings: dict[str, Any] = {"chosen_on_validation": best}
        findings["validation"] = {kernel: round(score, 4) for kernel, score in scores.items()}
        if best:
            above = tables.margins(_on(result, "test"), PUBLISHED)
            findings["points_above_vicreg_with_the_same_seed"] = {
                name: [round(value, 2) for value in points] for name, points in above.items() if name in KERNELS
            }
        return {"findings": findings}

    def table(self, result: Result) -> str:
        test, validation = _on(result, "test"), _on(result, "validation")
        findings = result.about["findings"]
        lines = [tables.summary(test, digits=2), "", tables.note(test)] if test else result.left_out()
        if best := findings["chosen_on_validation"]:
            paper = ", ".join(f"{name} {number}" for name, number in PAPER["mnist"].items())
            count = validation[0]["scored_on"]
            lines += [f"Chosen on {count:,} held-out images: {best}. The paper's numbers: {paper}."]
            margins = findings["points_above_vicreg_with_the_same_seed"].items()
            points = ", ".join(f"{kernel} {mean(values):+.2f}" for kernel, values in margins)
            lines += [f"Above VICReg with the same seed, in points of the linear probe: {points}."] if points else []
        on_test = Result(result.job, result.cells, test)
        return "\n".join([*lines, "", *on_test.unfinished(), ""])


def _on(result: Result, split: str) -> list[Row]:
    return [row for row in result.rows if row["on"] == split]
