"""Few images: 500, 2,000 and 10,000 of each data set for as many steps, every kernel beside VICReg.

The paper argues for kernels in "limited sample regimes". Fewer images are seen more often, so that all sizes cost the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from experiments.common import Cell, Experiment, Job, Result, Row, tables
from experiments.common.correct import differences, differences_table, gather_correct
from experiments.common.drawing import GREY, legend, panels
from experiments.compute import CONTENDERS, FORMS, plot_above
from experiments.defaults_vs_vicreg import GRIDS, PUBLISHED, varied


@dataclass(frozen=True)
class SmallData(Experiment, name="small-data"):
    """Kernels beside VICReg on 500, 2,000 and 10,000 images of three data sets, for equal steps.

    Example:
        python -m experiments small-data --out docs/results --part 1/2
    """

    few = {"data": ("mnist",), "forms": ("rbf",)}

    data: tuple[str, ...] = ("mnist", "fashion-mnist", "cifar10")
    """Data sets."""
    forms: tuple[str, ...] = tuple(FORMS)
    """Forms of Kernel VICReg."""

    def cells(self, job: Job) -> list[Cell]:
        names = (PUBLISHED, *self.forms)
        return [
            job.cell(
                {"name": name, "images": size}, data=data, seed=seed, **varied(job, "images", size), **CONTENDERS[name]
            )
            for data, seed, size, name in product(self.data, job.seeds, GRIDS[job.budget]["images"], names)
        ]

    def about(self, result: Result) -> dict[str, Any]:
        stored = gather_correct(result.job, self.stem, result.finished)
        return {"above_vicreg": differences(result.cells, stored, PUBLISHED, ("data", "images"))}

    def table(self, result: Result) -> str:
        parts = result.opening()
        for data, same in tables.groups(tables.named(result.rows), "data").items():
            parts += [f"### {data}, linear probe\n", by_size(same), ""]
        if rows := result.about["above_vicreg"]:
            parts += ["### Above VICReg as published, in points\n", differences_table(rows, ("data", "images")), ""]
        return "\n".join(parts)

    def figure(self, result: Result) -> None:
        draw(result, result.job.out / self.stem)


def by_size(rows: Sequence[Row]) -> str:
    """A line for each name, a column for each number of images, and the cost of a run; controls see no image."""
    sizes = sorted(size for size in tables.groups(rows, "images") if size is not None)
    lines = []
    for name, same in tables.groups(rows, "name").items():
        of, seconds = tables.groups(same, "images"), tables.average(same, "seconds")
        scores = (tables.percent(of.get(size, of.get(None, []))) for size in sizes)
        lines.append([name, *scores, f"{seconds:.0f}" if seconds else ""])
    return tables.markdown(["", *(f"{size:,} images" for size in sizes), "seconds"], lines)


def draw(result: Result, path: Path) -> None:
    """What each form has above VICReg at each size, a panel for each data set."""
    rows = [row for row in result.about["above_vicreg"] if row["score"] == "probe"]
    of = tables.groups(rows, "data")
    title = "Kernel VICReg above VICReg, by number of training images"
    detail = "Linear probe on the test set, in points; equal steps; bars: 95 % interval over seeds and images."
    with panels(path, (15, 5.6), title, detail, len(of), sharey=True) as ((*every,),):
        for axes, (data, same) in zip(every, of.items(), strict=True):
            names = tables.groups(same, "name")
            for number, (name, points) in enumerate(names.items()):
                shift = 1 + 0.08 * (number - (len(names) - 1) / 2)
                plot_above(axes, [row["images"] * shift for row in points], points, name)
            axes.axhline(0, color=GREY, lw=1)
            sizes = [*tables.groups(same, "images")]
            axes.set(xscale="log", title=data, xlabel="training images", xlim=(min(sizes) / 1.5, max(sizes) * 1.5))
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.minorticks_off()
            axes.grid(axis="y")
        every[0].set_ylabel("points above VICReg as published")
        legend(every[:1])
