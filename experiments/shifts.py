"""Robustness of kernels' own settings on MNIST: the polynomial's (degree, coef0), and the RBF's gamma.

A probe fitted on clean images is scored on clean, rotated (30 degrees) and low-contrast (0.8 of it kept) test images,
and so are the controls. With less contrast even raw pixels are lost: the background is no longer black.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, product
from typing import Any, ClassVar

from torch import nn

from experiments.common import CONTROLS, Cell, Experiment, Job, Result, Row, splits, tables
from experiments.common.drawing import BLUE, GREEN, ORANGE, legend, panels
from kvicreg.data import first_images
from kvicreg.evaluation.probes import fit_linear_probe
from kvicreg.evaluation.robustness import robustness
from kvicreg.measures.features import extract

SEVERITY, IMAGES = {"rotation": 3, "contrast": 1}, 2_000
DEGREES = {"smoke": (2, 3), "small": (2, 3, 4), "full": (2, 3, 4, 5)}
CONSTANTS, GAMMAS = (0.0, 0.5, 1.0, 2.0), (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0)
SERIES = {"clean": (BLUE, "o", "clean"), "rotation": (ORANGE, "s", "rotated by 30°"),
          "contrast": (GREEN, "^", "0.8 of the contrast")}  # fmt: skip


class _Shifts(Experiment):
    former = True
    kernel: ClassVar[str]
    down: ClassVar[str]
    heading: ClassVar[str]
    detail: ClassVar[str]
    width: ClassVar[float]
    line: ClassVar[str]
    columns = tuple(f"{name}{end}" for name in SERIES for end in ("", "_low", "_high"))

    def settings(self, job: Job) -> dict[str, dict[str, Any]]:
        """The kernel's settings that are compared, by what the table calls them."""
        raise NotImplementedError

    def cells(self, job: Job) -> list[Cell]:
        shared = {"data": "mnist", "kernel": self.kernel, **job.narrow}
        pairs = product(self.settings(job).items(), job.seeds)
        return [job.cell({"setting": name}, seed=seed, **shared, **changes) for (name, changes), seed in pairs]

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        return super().measure(job, cell, encoder) | shifted(encoder, cell)

    def table(self, result: Result) -> str:
        lines = ([name, *(tables.percent(same, s) for s in SERIES)] for name, same in _named(result.rows).items())
        text = tables.markdown([self.down, *(label for *_, label in SERIES.values())], lines)
        scored = [{**row, "scored_on": min(IMAGES, row["scored_on"])} for row in result.rows]
        return "\n".join([text, "", *([tables.note(scored)] if scored else result.left_out()), ""])

    def figure(self, result: Result) -> None:
        named, job = _named(result.rows), result.job
        count = min(IMAGES, result.rows[0]["scored_on"])
        detail = f"Probe of clean MNIST images on {count:,} {job.on} images; seeds: {len(job.seeds)}. {self.detail}"
        with panels(job.out / self.stem, (self.width, 5.4), self.heading, detail) as ((axes,),):
            fixed = sum(name not in ("median", *CONTROLS) for name in named)
            for series, (colour, mark, label) in SERIES.items():
                heights = [100 * tables.average(same, series) for same in named.values()]
                look = {"color": colour, "marker": mark, "markersize": 8}
                axes.plot(heights[:fixed], linestyle=self.line, **look, label=label)
                axes.plot(range(fixed, len(named)), heights[fixed:], **look, linestyle="none", fillstyle="none")
            axes.set_xticks(range(len(named)), [n.replace(" ", "\n") if n in CONTROLS else n for n in named])
            axes.set(ylabel="linear probe, %", xlabel=self.down)
            axes.grid(axis="y")
            legend([axes])


class PolynomialShifts(_Shifts, name="figure-polynomial"):
    """Robustness of the polynomial kernel on MNIST, by degree and constant."""

    kernel = "polynomial"
    down = "(degree, coef0)"
    heading = "Polynomial kernels under shifts, by degree and constant"
    detail = "Hollow: controls."
    width, line = 14, "none"

    def settings(self, job: Job) -> dict[str, dict[str, Any]]:
        constants = (0.0, 1.0) if job.budget == "smoke" else CONSTANTS
        return {f"({d}, {c:g})": {"degree": d, "coef0": c} for d, c in product(DEGREES[job.budget], constants)}


class RBFShifts(_Shifts, name="figure-rbf"):
    """Robustness of the RBF kernel on MNIST, by gamma."""

    kernel = "rbf"
    down = "gamma"
    heading = "RBF kernels under shifts, by a fixed gamma and by the median heuristic"
    detail = "Hollow: the median heuristic, and controls."
    width, line = 11, "-"

    def settings(self, job: Job) -> dict[str, dict[str, Any]]:
        gammas = (1e-3, 1.0) if job.budget == "smoke" else GAMMAS
        return {f"{gamma:g}": {"gamma": gamma} for gamma in gammas} | {"median": {}}


def _named(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each setting, the controls after them."""
    named = [{**row, "setting": row.get("setting", row["method"])} for row in rows if "clean" in row]
    return tables.groups(sorted(named, key=lambda row: row["setting"] in CONTROLS), "setting")


def shifted(encoder: nn.Module, cell: Cell) -> dict[str, float]:
    """Accuracy, with its interval, on clean and on shifted images."""
    fit, score = splits(cell)
    score = first_images(score, min(IMAGES, len(score)))
    assert fit.labels is not None
    assert score.labels is not None
    probe = fit_linear_probe(extract(encoder, fit), fit.labels, seed=cell.settings.engine.seed)
    curves = robustness(lambda alter: extract(encoder, score, alter=alter), probe, score.labels, shifts=(*SEVERITY,))
    intervals = [curves[0].accuracy[0], *(curve.accuracy[SEVERITY[curve.shift]] for curve in curves)]
    names = ["clean", *(curve.shift for curve in curves)]
    columns = [f"{name}{end}" for name in names for end in ("", "_low", "_high")]
    return dict(zip(columns, chain.from_iterable(intervals), strict=True))
