"""Robustness of kernels' own settings on MNIST: the polynomial's (degree, coef0), and the RBF's gamma.

A probe fitted on clean images is scored on clean, rotated (30 degrees) and low-contrast (0.8 of it kept) test images,
and so are the controls. With less contrast even raw pixels are lost: the background is no longer black.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean
from typing import Any

from torch import nn

from kvicreg.data import first_images
from kvicreg.evaluation.features import extract
from kvicreg.evaluation.probes import fit_linear_probe
from kvicreg.evaluation.robustness import robustness
from kvicreg.models import load_encoder
from kvicreg.reproduction import tables
from kvicreg.reproduction.cells import CONTROLS, Cell, control_encoder, splits
from kvicreg.reproduction.drawing import BLUE, GREEN, ORANGE, heading, styled
from kvicreg.reproduction.jobs import Job
from kvicreg.reproduction.tables import Row

__all__ = ["polynomial", "rbf"]

SEVERITY, IMAGES = {"rotation": 3, "contrast": 1}, 2_000
DEGREES = {"smoke": (2, 3), "small": (2, 3, 4), "full": (2, 3, 4, 5)}
CONSTANTS = {"smoke": (0.0, 1.0), "small": (0.0, 0.5, 1.0, 2.0), "full": (0.0, 0.5, 1.0, 2.0)}
GAMMAS = {"smoke": (1e-3, 1.0), "small": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0)}
GAMMAS["full"] = GAMMAS["small"]
SERIES = {"clean": (BLUE, "o", "clean"), "rotation": (ORANGE, "s", "rotated by 30°"),
          "contrast": (GREEN, "^", "0.8 of the contrast")}  # fmt: skip


def polynomial(job: Job) -> list[Row]:
    """Write ``figure-polynomial`` as .png, .svg, .md, .csv and .json."""
    labels = [(degree, constant) for degree in DEGREES[job.budget] for constant in CONSTANTS[job.budget]]
    cells = [
        job.cell(
            {"setting": f"({d}, {c:g})"}, data="mnist", seed=seed, **job.narrow, kernel="polynomial", degree=d, coef0=c
        )
        for d, c in labels
        for seed in job.seeds
    ]
    rows = _measured(job, cells, "figure-polynomial", "(degree, coef0)")
    measured = _named(rows)
    if measured:
        with styled(job.out / "figure-polynomial", 14, 5.4) as figure:
            heading(figure, "Polynomial kernels under shifts, by degree and constant", _detail(job, rows))
            axes = figure.add_axes((0.055, 0.16, 0.93, 0.63))
            for number, (series, (colour, _, label)) in enumerate(SERIES.items()):
                heights = [100 * mean(row[series] for row in same) for same in measured.values()]
                axes.bar(
                    [x + 0.27 * (number - 1) for x in range(len(heights))], heights, 0.25, color=colour, label=label
                )
            _name_ticks(axes, measured)
            axes.set(xlabel="(degree, coef0)", ylabel="linear probe, %")
            axes.set_ylim(0, 101)
            figure.legend(loc="upper right", ncols=5, bbox_to_anchor=(0.99, 0.87))
    return rows


def rbf(job: Job) -> list[Row]:
    """Write ``figure-rbf`` as .png, .svg, .md, .csv and .json."""
    settings: list[tuple[str, dict[str, Any]]] = [(f"{g:g}", {"gamma": g}) for g in GAMMAS[job.budget]]
    settings.append(("median", {}))
    cells = [
        job.cell({"setting": name}, data="mnist", seed=seed, **job.narrow, kernel="rbf", **own)
        for name, own in settings
        for seed in job.seeds
    ]
    rows = _measured(job, cells, "figure-rbf", "gamma")
    measured = _named(rows)
    if measured:
        with styled(job.out / "figure-rbf", 11, 5.4) as figure:
            heading(
                figure, "RBF kernels under shifts, by a fixed gamma and by the median heuristic", _detail(job, rows)
            )
            axes = figure.add_axes((0.07, 0.17, 0.91, 0.62))
            names = [name for (name,) in measured]
            fixed = [x for x, name in enumerate(names) if name in map("{:g}".format, GAMMAS[job.budget])]
            for series, (colour, mark, label) in SERIES.items():
                heights = [100 * mean(row[series] for row in same) for same in measured.values()]
                axes.plot(fixed, [heights[x] for x in fixed], color=colour, marker=mark, markersize=7, label=label)
                for x in set(range(len(names))) - set(fixed):
                    axes.plot(x, heights[x], color=colour, marker=mark, markersize=9, markerfacecolor="white")
            _name_ticks(axes, measured)
            axes.set(xlabel="gamma (hollow: the median heuristic, and controls)", ylabel="linear probe, %")
            axes.grid(axis="y", alpha=0.25)
            figure.legend(loc="upper right", ncols=5, bbox_to_anchor=(0.99, 0.87))
    return rows


def _measured(job: Job, cells: Sequence[Cell], stem: str, down: str) -> list[Row]:
    """The rows of the cells with their accuracies under the shifts, written as a table."""
    missing = job.missing(["mnist"])
    rows = [] if missing else job.rows(cells, folders=True)
    of = {(cell.labels["setting"], cell.config.seed): cell for cell in cells}
    for row in rows:
        cell = of.get((row.get("setting", ""), row["seed"]))
        if cell is not None and "probe" in row:
            row |= job.extra(cell, f"shifts-{job.on}", lambda folder, c=cell: _shifted(load_encoder(folder), c, job))  # type: ignore[misc]
        elif "setting" not in row:  # a control, of the encoder that all settings share
            cell = next(c for c in cells if c.config.seed == row["seed"])
            row |= _shifted(control_encoder(row["method"], replace(cell.config, images=None)), cell, job)
    lines = [f"| {down} | {' | '.join(label for *_, label in SERIES.values())} |", "|---" * 4 + "|"]
    for (name,), same in _named(rows).items():
        lines.append(f"| {name} | {' | '.join(tables.percent(same, series) for series in SERIES)} |")
    scored = [{**row, "scored_on": min(IMAGES, row["scored_on"])} for row in rows]
    text = "\n".join([*lines, "", *([tables.note(scored)] if rows else missing.values()), ""])
    job.write(stem, rows, text, missing=missing)
    return rows


def _named(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each setting, the controls after them."""
    named = [{**row, "setting": row.get("setting", row["method"])} for row in rows if "clean" in row]
    return tables.groups(sorted(named, key=lambda row: row["setting"] in CONTROLS), "setting")


def _name_ticks(axes: Any, measured: dict[tuple[Any, ...], list[Row]]) -> None:
    names = [name.replace(" ", "\n") if name in CONTROLS else name for (name,) in measured]
    axes.set_xticks(range(len(names)), names)


def _shifted(encoder: nn.Module, cell: Cell, job: Job) -> dict[str, float]:
    """Accuracy, with its interval, on clean and on shifted images."""
    fit, score = splits(cell.config, job.on, cell.probe_images)
    score = first_images(score, min(IMAGES, len(score)))
    assert fit.labels is not None
    assert score.labels is not None
    probe = fit_linear_probe(extract(encoder, fit), fit.labels, seed=cell.config.seed)
    curves = robustness(lambda alter: extract(encoder, score, alter=alter), probe, score.labels, shifts=(*SEVERITY,))
    found = {"clean": curves[0].accuracy[0]}
    found |= {curve.shift: curve.accuracy[SEVERITY[curve.shift]] for curve in curves}
    return {
        f"{name}{end}": number
        for name, interval in found.items()
        for end, number in zip(("", "_low", "_high"), interval, strict=True)
    }


def _detail(job: Job, rows: Sequence[Row]) -> str:
    count = min(IMAGES, rows[0]["scored_on"])
    return f"Probe of clean MNIST images on {count:,} {job.on} images; seeds: {len(job.seeds)}."
