"""Robustness of kernels' own settings on MNIST: the polynomial's (degree, coef0), and the RBF's gamma.

A probe fitted on clean images is scored on clean, rotated (30 degrees) and low-contrast (0.8 of it kept) test images,
and so are the controls. With less contrast even raw pixels are lost: the background is no longer black.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any, ClassVar

from torch import nn

from experiments.common import CONTROLS, Cell, Experiment, Job, Result, Row, Section, splits, tables
from experiments.common.drawing import BLUE, GREEN, ORANGE, figure_in
from kvicreg.data import first_images
from kvicreg.evaluation.probes import fit_linear_probe
from kvicreg.evaluation.robustness import robustness
from kvicreg.measures.features import extract

SEVERITY, IMAGES = {"rotation": 3, "contrast": 1}, 2_000
DEGREES = {"smoke": (2, 3), "small": (2, 3, 4), "full": (2, 3, 4, 5)}
CONSTANTS = {"smoke": (0.0, 1.0), "small": (0.0, 0.5, 1.0, 2.0), "full": (0.0, 0.5, 1.0, 2.0)}
GAMMAS = {"smoke": (1e-3, 1.0), "small": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0)}
GAMMAS["full"] = GAMMAS["small"]
SERIES = {"clean": (BLUE, "o", "clean"), "rotation": (ORANGE, "s", "rotated by 30°"),
          "contrast": (GREEN, "^", "0.8 of the contrast")}  # fmt: skip
Named = dict[str, list[Row]]


class _Shifts(Experiment):
    down: ClassVar[str]
    heading: ClassVar[str]
    size: ClassVar[tuple[float, tuple[float, float, float, float]]]  # width of the figure, place of the axes
    columns = tuple(f"{name}{end}" for name in SERIES for end in ("", "_low", "_high"))

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        return super().measure(job, cell, encoder) | shifted(encoder, cell)

    def table(self, result: Result) -> str:
        lines = ([name, *(tables.percent(same, s) for s in SERIES)] for name, same in _named(result.rows).items())
        text = tables.markdown([self.down, *(label for *_, label in SERIES.values())], lines)
        scored = [{**row, "scored_on": min(IMAGES, row["scored_on"])} for row in result.rows]
        return "\n".join([text, "", *([tables.note(scored)] if scored else result.left_out()), ""])

    def figure(self, result: Result) -> None:
        named, (width, place) = _named(result.rows), self.size
        count, seeds = min(IMAGES, result.rows[0]["scored_on"]), len(result.job.seeds)
        detail = f"Probe of clean MNIST images on {count:,} {result.job.on} images; seeds: {seeds}."
        with figure_in(result.job.out / self.stem, width, 5.4, self.heading, detail) as figure:
            axes = figure.add_axes(place)
            self.draw(axes, named, {s: [100 * mean(row[s] for row in same) for same in named.values()] for s in SERIES})
            axes.set_xticks(range(len(named)), [n.replace(" ", "\n") if n in CONTROLS else n for n in named])
            axes.set_ylabel("linear probe, %")
            figure.legend(loc="upper right", ncols=5, bbox_to_anchor=(0.99, 0.87))

    def draw(self, axes: Any, named: Named, heights: dict[str, list[float]]) -> None:
        raise NotImplementedError


class PolynomialShifts(_Shifts, name="figure-polynomial"):
    """Robustness of the polynomial kernel on MNIST, by degree and constant."""

    place = 9
    sections = (Section("Robustness: the polynomial kernel", "Under rotation and loss of contrast."),)
    down = "(degree, coef0)"
    heading = "Polynomial kernels under shifts, by degree and constant"
    size = 14, (0.055, 0.16, 0.93, 0.63)

    def cells(self, job: Job) -> list[Cell]:
        shared = {"data": "mnist", "kernel": "polynomial", **job.narrow}
        return [
            job.cell({"setting": f"({degree}, {constant:g})"}, seed=seed, degree=degree, coef0=constant, **shared)
            for degree in DEGREES[job.budget]
            for constant in CONSTANTS[job.budget]
            for seed in job.seeds
        ]

    def draw(self, axes: Any, named: Named, heights: dict[str, list[float]]) -> None:
        for number, (series, (colour, _, label)) in enumerate(SERIES.items()):
            x = [place + 0.27 * (number - 1) for place in range(len(named))]
            axes.bar(x, heights[series], 0.25, color=colour, label=label)
        axes.set_xlabel("(degree, coef0)")
        axes.set_ylim(0, 101)


class RBFShifts(_Shifts, name="figure-rbf"):
    """Robustness of the RBF kernel on MNIST, by gamma."""

    place = 10
    sections = (Section("Robustness: the RBF kernel", "Under rotation and loss of contrast."),)
    down = "gamma"
    heading = "RBF kernels under shifts, by a fixed gamma and by the median heuristic"
    size = 11, (0.07, 0.17, 0.91, 0.62)

    def cells(self, job: Job) -> list[Cell]:
        gammas: dict[str, dict[str, Any]] = {f"{g:g}": {"gamma": g} for g in GAMMAS[job.budget]} | {"median": {}}
        shared = {"data": "mnist", "kernel": "rbf", **job.narrow}
        return [job.cell({"setting": n}, seed=seed, **shared, **g) for n, g in gammas.items() for seed in job.seeds]

    def draw(self, axes: Any, named: Named, heights: dict[str, list[float]]) -> None:
        fixed = [x for x, name in enumerate(named) if name not in ("median", *CONTROLS)]
        for series, (colour, mark, label) in SERIES.items():
            values = heights[series]
            axes.plot(fixed, [values[x] for x in fixed], color=colour, marker=mark, markersize=7, label=label)
            for x in set(range(len(named))) - set(fixed):
                axes.plot(x, values[x], color=colour, marker=mark, markersize=9, markerfacecolor="white")
        axes.set_xlabel("gamma (hollow: the median heuristic, and controls)")
        axes.grid(axis="y", alpha=0.25)


def _named(rows: Sequence[Row]) -> Named:
    """The rows of each setting, the controls after them."""
    named = [{**row, "setting": row.get("setting", row["method"])} for row in rows if "clean" in row]
    of = tables.groups(sorted(named, key=lambda row: row["setting"] in CONTROLS), "setting")
    return {name: same for (name,), same in of.items()}


def shifted(encoder: nn.Module, cell: Cell) -> dict[str, float]:
    """Accuracy, with its interval, on clean and on shifted images."""
    fit, score = splits(cell)
    score = first_images(score, min(IMAGES, len(score)))
    assert fit.labels is not None
    assert score.labels is not None
    probe = fit_linear_probe(extract(encoder, fit), fit.labels, seed=cell.settings.engine.seed)
    curves = robustness(lambda alter: extract(encoder, score, alter=alter), probe, score.labels, shifts=(*SEVERITY,))
    intervals = {"clean": curves[0].accuracy[0]}
    intervals |= {curve.shift: curve.accuracy[SEVERITY[curve.shift]] for curve in curves}
    return {
        f"{name}{end}": number
        for name, interval in intervals.items()
        for end, number in zip(("", "_low", "_high"), interval, strict=True)
    }
