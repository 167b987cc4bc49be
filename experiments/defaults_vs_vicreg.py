"""The defaults against VICReg: one triple of weights for every kernel, VICReg tuned and as published, on test sets.

Equal budget for all; raw pixels, the untrained encoder and the encoder trained with labels stand beside them. Then, on
one data set, the batch size, the width of the embeddings and the number of training images vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.common import CONTROLS, Cell, Experiment, Job, Result, Row, size_setting, tables
from experiments.common.drawing import GREY, legend, look, panels
from experiments.study import tuned

KERNELS = ("linear", "polynomial", "rbf", "laplacian", "rq", "rbf+linear")
PUBLISHED, TUNED = "vicreg, published", "vicreg, tuned"
GRIDS: dict[str, dict[str, tuple[int, ...]]] = {
    "smoke": {"images": (64,)},
    "small": {"batch size": (64, 256, 1024), "projector width": (128, 512, 2048), "images": (500, 2_000, 10_000)},
}
GRIDS["full"] = GRIDS["small"]
REFERENCES = (*CONTROLS, "supervised")


@dataclass(frozen=True)
class DefaultsVsVICReg(Experiment, name="defaults-vs-vicreg"):
    """Every kernel with one triple of weights against VICReg, on test sets.

    VICReg runs with its published weights and with those that the study has chosen. Run it once, after the defaults
    are settled.

    Example:
        python -m experiments defaults-vs-vicreg --study docs/results/study.json --part 1/2
    """

    few = {"data": ("mnist",), "grid_data": "mnist"}

    data: tuple[str, ...] = ("mnist", "fashion-mnist", "cifar10")
    """Data sets."""
    grid_data: str = "cifar10"
    """Where batch size, width and number of training images vary; "" for nowhere."""
    grid_seeds: tuple[int, ...] = (0,)
    """Seeds of those."""
    study: Path | None = None
    """Result file of the study, which has VICReg's tuned weights; by default OUT/study.json."""

    def cells(self, job: Job) -> list[Cell]:
        contenders: dict[str, dict[str, Any]] = {PUBLISHED: {"method": "vicreg"}}
        if (weights := tuned(self._study(job))) is None:
            job.say(f"{TUNED} is left out: there is no {self._study(job)} to take its weights from")
        else:
            contenders[TUNED] = {"method": "vicreg", **weights}
        contenders |= {kernel: {"kernel": kernel} for kernel in KERNELS}
        cells = [
            job.cell({"name": name, "grid": "", "value": ""}, data=source, seed=seed, **changes)
            for source, seed in product(self.data, job.seeds)
            for name, changes in {**contenders, "supervised": {"method": "supervised"}}.items()
        ]
        before = replace(job, former=True)  # the grids are from when there was a spectrum for each view
        for grid, values in (GRIDS[job.budget] if self.grid_data else {}).items():
            for value, seed, (name, changes) in product(values, self.grid_seeds, contenders.items()):
                labels, settings = {"name": name, "grid": grid, "value": value}, varied(job, grid, value) | changes
                cells.append(before.cell(labels, data=self.grid_data, seed=seed, **settings))
        return cells

    def _study(self, job: Job) -> Path:
        return self.study or job.out / "study.json"

    def about(self, result: Result) -> dict[str, Any]:
        return {"tuned_on": self._study(result.job).name, "findings": findings(*_split(result.rows))}

    def table(self, result: Result) -> str:
        rows, grids = _split(result.rows)
        parts, answers = result.opening(), result.about["findings"]
        if answers["best_fixed_kernel"]:
            above = answers["kernels_above_rival_everywhere"]
            below = answers["kernels_below_the_random_encoder_in_the_grids"]
            parts += [
                f"By linear probe, mean over seeds, the kernel best on average is {answers['best_fixed_kernel']}; it "
                f"is {'' if answers['best_fixed_kernel_is_above_everywhere'] else 'not '}above {answers['rival']} on "
                f"every data set. Those that are: {', '.join(above) or 'no kernel'}. Below the untrained encoder in "
                f"the grids: {'; '.join(below) or 'no kernel'}.\n"
            ]
        if margins := tables.margins_table(rows, answers["rival"], KERNELS):
            parts += [f"### Above {answers['rival']}, in points, seed by seed\n", margins, ""]
        for source, same in tables.groups(rows, "data").items():
            parts += [f"### {source}\n", tables.summary(same), ""]
        for grid, same in tables.groups(grids, "grid").items():
            title = f"### {grid} ({same[0]['data']}; a spectrum for each view)\n"
            parts += [title, tables.grid(same, "name", "value"), ""]
        return "\n".join(parts)

    def figure(self, result: Result) -> None:
        rows, grids = (tables.named(row for row in part if "probe" in row) for part in _split(result.rows))
        if rows:
            draw(rows, result.job.out / self.stem)
        if grids:
            draw_grids(grids, rows, result.job.out / f"{self.stem}-grids")


def _split(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of the comparison, with those of controls, and the rows of the grids."""
    return [row for row in rows if not row.get("grid")], [row for row in rows if row.get("grid")]


def varied(job: Job, grid: str, value: int) -> dict[str, Any]:
    """The settings of a grid's value; fewer images are seen more often, for as many steps in all."""
    if grid != "images":
        return size_setting(grid, value)
    usual = job.settings()
    epochs, images = usual.schedule.total_epochs, usual.data.images or 45_000
    size = usual.schedule.batch_size_for(images)
    return {"images": value, "epochs": round(epochs * (images // size) / (value // size))}


def findings(rows: Sequence[Row], grids: Sequence[Row]) -> dict[str, Any]:
    """The two claims, answered: is the best fixed kernel above tuned VICReg, and is any below the random encoder?"""
    named = tables.groups(tables.named(r for r in rows if "probe" in r), "data", "name")
    scores = {key: tables.average(same) for key, same in named.items()}
    sources = [*tables.groups(rows, "data")]
    rival = TUNED if any(name == TUNED for _, name in scores) else PUBLISHED
    whole = [k for k in KERNELS if sources and all((source, k) in scores for source in sources)]
    best = max(whole, key=lambda kernel: mean(scores[source, kernel] for source in sources), default=None)
    margins = {
        source: {kernel: round(scores[source, kernel] - scores[source, rival], 4) for kernel in whole}
        for source in sources
        if (source, rival) in scores
    }
    above = [k for k in whole if margins and all(m[k] > 0 for m in margins.values())]
    below = [
        f"{row['name']} at {row['grid']} {row['value']}, seed {row['seed']}"
        for row in grids
        if row["name"] in KERNELS and row.get("probe", 0) < scores.get((row["data"], "random encoder"), 0)
    ]
    return {
        "rival": rival,
        "best_fixed_kernel": best,
        "margin_of_every_kernel_over_rival": margins,
        "kernels_above_rival_everywhere": above,
        "best_fixed_kernel_is_above_everywhere": best in above,
        "kernels_below_the_random_encoder_in_the_grids": below,
    }


def draw(rows: Sequence[Row], path: Path) -> None:
    """Linear probe of every contender, each seed a dot, the mean a bar of the interval's width."""
    sources = tables.groups(rows, "data")
    names = [name for name in tables.groups(rows, "name") if name not in REFERENCES][::-1]
    size = (2 + 4.6 * len(sources), 2.2 + 0.5 * len(names))
    title = "Kernel VICReg with one triple of weights, beside VICReg, at equal budget"
    detail = "Linear probe on the test set, %. Dots: seeds; bars: mean and 95 % interval over images; lines: controls."
    with panels(path, size, title, detail, len(sources), sharey=True) as ((*every,),):
        for axes, (source, here) in zip(every, sources.items(), strict=True):
            of = tables.groups(here, "name")
            for y, same in ((y, of[name]) for y, name in enumerate(names) if name in of):
                colour = look(same[0]["name"])["color"]
                ends = [100 * tables.average(same, f"probe_{end}") for end in ("low", "high")]
                axes.plot(ends, [y, y], color=colour, linewidth=7, alpha=0.3, solid_capstyle="butt")
                axes.plot([100 * row["probe"] for row in same], [y] * len(same), "o", color=colour, markersize=4)
                axes.plot(100 * tables.average(same), y, "|", color=colour, markersize=15, markeredgewidth=2.5)
            for dash, name in zip((":", "--", "-."), REFERENCES, strict=True):
                if name in of:
                    axes.axvline(100 * tables.average(of[name]), color=GREY, linestyle=dash, lw=1.3, label=name)
            axes.set_yticks(range(len(names)), names)
            axes.set(title=source, xlabel="linear probe, %")
            axes.grid(axis="x")
        legend(every[:1])


def draw_grids(grids: Sequence[Row], rows: Sequence[Row], path: Path) -> None:
    """A panel for each grid, a line for each contender; controls in words."""
    data, seeds = grids[0]["data"], {row["seed"] for row in grids}
    beside = tables.groups((row for row in rows if row["data"] == data and row["seed"] in seeds), "method")
    levels = (f"{name} {100 * tables.average(beside[name]):.1f} %" for name in CONTROLS)
    title = f"The same weights at other batch sizes, projectors and numbers of images, on {data}"
    detail = (
        f"Linear probe on the test set; seeds: {len(seeds)}. Fewer images are seen more often, for as many steps. "
        f"Controls: {', '.join(levels)}."
    )
    of = tables.groups(grids, "grid")
    with panels(path, (15, 5.6), title, detail, len(of), sharey=True) as ((*every,),):
        for axes, (grid, here) in zip(every, of.items(), strict=True):
            values = sorted({row["value"] for row in here})
            for name, same in tables.groups(here, "name").items():
                at = {values.index(v): 100 * tables.average(rows) for v, rows in tables.groups(same, "value").items()}
                line = ":" if name == PUBLISHED else "-"
                axes.plot(*zip(*sorted(at.items()), strict=True), line, **look(name), markersize=7, label=name)
            axes.set_xticks(range(len(values)), [f"{value:,}" for value in values])
            axes.set_title(grid)
            axes.grid(axis="y")
        every[0].set_ylabel("linear probe, %")
        legend(every[:1])
