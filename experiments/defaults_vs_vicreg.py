"""The defaults against VICReg: one triple of weights for every kernel, VICReg tuned and as published, on test sets.

Equal budget for all; raw pixels, the untrained encoder and the encoder trained with labels stand beside them. Then, on
one data set, the batch size, the width of the embeddings and the number of training images vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from experiments.common import CONTROLS, Cell, Experiment, Job, Result, Row, Section, tables
from experiments.common.drawing import COLOURS, GREY, MARKS, legend, panels
from experiments.study import tuned

KERNELS = ("linear", "polynomial", "rbf", "laplacian", "rq", "rbf+linear")
PUBLISHED, TUNED = "vicreg, published", "vicreg, tuned"
GRIDS: dict[str, dict[str, tuple[int, ...]]] = {
    "smoke": {"batch size": (32, 64), "projector width": (16, 32), "images": (64, 128)},
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

    place = 1
    sections = (
        Section(
            "The defaults against VICReg",
            "One triple of weights for every kernel, against VICReg at equal budget, on the test sets. VICReg runs "
            "with its published weights and with one triple tuned for all three data sets: the best of a grid of "
            "twelve on held-out training images ([the study](parametrization.md), one seed, an encoder half as wide). "
            "The kernels' own weights and threshold were settled on held-out training images too.",
        ),
    )
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
        contenders = {PUBLISHED: {"method": "vicreg"}} | {kernel: {"kernel": kernel} for kernel in KERNELS}
        weights = tuned(self._study(job))
        if weights is None:
            job.say(f"{TUNED} is left out: there is no {self._study(job)} to take its weights from")
        else:
            contenders = {PUBLISHED: contenders[PUBLISHED], TUNED: {"method": "vicreg", **weights}, **contenders}
        main = [
            job.cell({"name": name, "grid": "", "value": ""}, data=source, seed=seed, **settings)
            for source in self.data
            for seed in job.seeds
            for name, settings in {**contenders, "supervised": {"method": "supervised"}}.items()
        ]
        return main + [
            job.cell(
                {"name": n, "grid": grid, "value": v}, data=self.grid_data, seed=s, **varied(job, grid, v), **changes
            )
            for grid, values in (GRIDS[job.budget] if self.grid_data else {}).items()
            for v in values
            for s in self.grid_seeds
            for n, changes in contenders.items()
        ]

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
        if margins := margins_table(rows, answers["rival"]):
            parts += [f"### Above {answers['rival']}, in points, seed by seed\n", margins, ""]
        for (source,), same in tables.groups(rows, "data").items():
            parts += [f"### {source}\n", tables.summary(same), ""]
        for (grid,), same in tables.groups(grids, "grid").items():
            parts += [f"### {grid} ({same[0]['data']})\n", tables.grid(same, "name", "value"), ""]
        return "\n".join(parts)

    def figure(self, result: Result) -> None:
        rows, grids = ([row for row in part if "probe" in row] for part in _split(result.rows))
        if rows:
            draw([{**row, "name": tables.name_of(row)} for row in rows], result.job.out / self.stem)
        if grids:
            draw_grids(grids, rows, result.job.out / f"{self.stem}-grids")


def _split(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of the comparison, with those of controls, and the rows of the grids."""
    return [row for row in rows if not row.get("grid")], [row for row in rows if row.get("grid")]


def varied(job: Job, grid: str, value: int) -> dict[str, Any]:
    """The settings of a grid's value; fewer images are seen more often, for as many steps in all."""
    if grid == "batch size":
        return {"batch_size": value}
    if grid == "projector width":
        return {"projector_hidden": value, "projector_outputs": value}
    usual = job.settings()
    epochs, images = usual.schedule.epochs, usual.data.images or 45_000
    size = usual.schedule.batch_size_for(images)
    return {"images": value, "epochs": round(epochs * (images // size) / (value // size))}


def findings(rows: Sequence[Row], grids: Sequence[Row]) -> dict[str, Any]:
    """The two claims, answered: is the best fixed kernel above tuned VICReg, and is any below the random encoder?"""
    named = tables.groups([{**r, "name": tables.name_of(r)} for r in rows if "probe" in r], "data", "name")
    scores = {key: mean(row["probe"] for row in same) for key, same in named.items()}
    sources = list(dict.fromkeys(row["data"] for row in rows))
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


def margins_table(rows: Sequence[Row], rival: str) -> str:
    """What every kernel has above the rival with the same seed: the mean, and the least and most of the seeds."""
    of = {(row["data"], tables.name_of(row), row["seed"]): row for row in rows if "probe" in row}
    sources = list(dict.fromkeys(source for source, name, _ in of if name == rival))
    columns = [(source, score) for source in sources for score in ("probe", "knn")]

    def above(kernel: str, source: str, score: str) -> str:
        both = [seed for d, n, seed in of if (d, n) == (source, kernel) and (source, rival, seed) in of]
        points = [100 * (of[source, kernel, s][score] - of[source, rival, s][score]) for s in both]
        return f"{mean(points):+.1f} ({min(points):+.1f} to {max(points):+.1f})" if points else ""

    titles = ["", *(f"{source}, {tables.SCORES[score]}" for source, score in columns)]
    lines = ([kernel, *(above(kernel, *column) for column in columns)] for kernel in KERNELS)
    return tables.markdown(titles, lines) if columns else ""


def draw(rows: Sequence[Row], path: Path) -> None:
    """Linear probe of every contender, each seed a dot, the mean a bar of the interval's width."""
    sources = tables.groups(rows, "data")
    names = [n for n in dict.fromkeys(row["name"] for row in rows) if n not in REFERENCES][::-1]
    width, height = 2 + 4.6 * len(sources), 1.9 + 0.5 * len(names)
    title = "Kernel VICReg with one triple of weights, beside VICReg, at equal budget"
    detail = "Linear probe on the test set, %. Dots: seeds; bars: mean and 95 % interval over images; lines: controls."
    with panels(
        path, (width, height), title, detail, len(sources), (1.75 / width, 0.985, 1 - 1.2 / height, 0.75 / height, 0.08)
    ) as every:
        for axes, ((source,), here) in zip(every, sources.items(), strict=True):
            of = {name: same for (name,), same in tables.groups(here, "name").items()}
            for y, name in enumerate(names):
                if name in of:
                    _seeds_and_mean(axes, y, of[name], COLOURS.get(name.split(",")[0], "black"))
            for dash, name in zip((":", "--", "-."), REFERENCES, strict=True):
                if name in of:
                    level = 100 * mean(row["probe"] for row in of[name])
                    axes.axvline(level, color=GREY, linestyle=dash, lw=1.3, label=name)
            axes.set_yticks(range(len(names)), names)
            axes.set(title=source, xlabel="linear probe, %")
            axes.grid(axis="x", alpha=0.25)
        legend(every[:1], loc="upper right", bbox_to_anchor=(0.99, 1 - 0.4 / height), ncols=3)


def _seeds_and_mean(axes: Any, y: float, rows: Sequence[Row], colour: str) -> None:
    low, high, centre = (100 * mean(row[f"probe{end}"] for row in rows) for end in ("_low", "_high", ""))
    axes.plot([low, high], [y, y], color=colour, linewidth=7, alpha=0.3, solid_capstyle="butt")
    axes.plot([100 * row["probe"] for row in rows], [y] * len(rows), "o", color=colour, markersize=4)
    axes.plot([centre], [y], "|", color=colour, markersize=15, markeredgewidth=2.5)


def draw_grids(grids: Sequence[Row], rows: Sequence[Row], path: Path) -> None:
    """A panel for each grid, a line for each contender; controls in words."""
    data, seeds = grids[0]["data"], {row["seed"] for row in grids}
    beside = [row for row in rows if row["data"] == data and row["seed"] in seeds]
    levels = {name: mean(row["probe"] for row in beside if row["method"] == name) for name in CONTROLS}
    title = f"The same weights at other batch sizes, projectors and numbers of images, on {data}"
    detail = (
        f"Linear probe on the test set; seeds: {len(seeds)}. Fewer images are seen more often, for as many steps. "
        f"Controls: {', '.join(f'{name} {100 * level:.1f} %' for name, level in levels.items())}."
    )
    of = tables.groups(grids, "grid")
    with panels(path, (15, 5.6), title, detail, len(of), (0.05, 0.84, 0.8, 0.13, 0.08)) as every:
        for axes, ((grid,), here) in zip(every, of.items(), strict=True):
            values = sorted({row["value"] for row in here})
            for (name,), same in tables.groups(here, "name").items():
                points = tables.groups(sorted(same, key=lambda row: row["value"]), "value")
                x = [values.index(value) for (value,) in points]
                y = [100 * mean(row["probe"] for row in at) for at in points.values()]
                kind = name.split(",")[0]
                line = ":" if name == PUBLISHED else "-"
                axes.plot(x, y, line, color=COLOURS.get(kind), marker=MARKS.get(kind, "o"), markersize=7, label=name)
            axes.set_xticks(range(len(values)), [f"{value:,}" for value in values])
            axes.set_title(grid)
            axes.grid(axis="y", alpha=0.25)
        every[0].set_ylabel("linear probe, %")
        legend(every[:1], loc="center right", bbox_to_anchor=(0.995, 0.5), ncols=1)
