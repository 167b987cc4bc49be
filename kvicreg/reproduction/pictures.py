"""The paper's pictures of what was learnt on MNIST: UMAP of three encoders, and the eigenvalues over training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.data import first_images
from kvicreg.evaluation.features import extract
from kvicreg.evaluation.maps import umap_points
from kvicreg.models import load_encoder
from kvicreg.reproduction import tables
from kvicreg.reproduction.cells import Cell, splits
from kvicreg.reproduction.drawing import heading, styled
from kvicreg.reproduction.jobs import Job
from kvicreg.reproduction.tables import Row

__all__ = ["eigenvalues", "umap"]

IMAGES = {"smoke": 60, "small": 3_000, "full": 5_000}
SHOWN = 10
"""Eigenvalues that are drawn."""


def umap(job: Job) -> list[Row]:
    """Write ``figure-umap``: VICReg, linear and Laplacian side by side, their test images coloured by digit."""
    models: dict[str, dict[str, Any]] = {
        "VICReg": {"method": "vicreg"},
        "linear kernel": {"kernel": "linear"},
        "Laplacian kernel": {"kernel": "laplacian"},
    }
    cells, rows = _cells(job, models)
    _write(job, "figure-umap", rows)
    trained = [row for row in rows if "name" in row and "probe" in row]
    if not trained:
        return rows
    with styled(job.out / "figure-umap", 15, 5.9) as figure:
        heading(
            figure,
            "MNIST's digits, as three encoders see them",
            f"UMAP of the frozen features of {min(IMAGES[job.budget], trained[0]['scored_on']):,} {job.on} images; "
            "colours and numbers are the digits, which training never saw.",
        )
        panels = figure.subplots(1, len(trained))
        figure.subplots_adjust(left=0.01, right=0.99, top=0.8, bottom=0.03, wspace=0.05)
        for axes, row in zip(np.atleast_1d(panels), trained, strict=True):
            cell = next(c for c in cells if c.labels["name"] == row["name"])
            found = job.extra(cell, f"umap-{job.on}", lambda folder, c=cell: _map(folder, c, job))  # type: ignore[misc]
            points, labels = np.array(found["points"]), np.array(found["labels"])
            axes.scatter(
                *points.T,
                c=labels,
                cmap="tab10",
                s=5 if len(points) > 500 else 20,
                alpha=0.7,
                linewidths=0,
                rasterized=True,
            )
            for digit in np.unique(labels):
                centre = np.median(points[labels == digit], axis=0)
                box = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "alpha": 0.85, "linewidth": 0}
                axes.text(*centre, str(digit), ha="center", va="center", fontsize=13, fontweight="bold", bbox=box)
            axes.set_title(f"{row['name']}: probe {row['probe']:.1%}, 20-NN {row['knn']:.1%}")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
    return rows


def eigenvalues(job: Job) -> list[Row]:
    """Write ``figure-eigenvalues``: the leading eigenvalues of the centred operator after every epoch."""
    models: dict[str, dict[str, Any]] = {"VICReg": {"method": "vicreg"}}
    models |= {kernel: {"kernel": kernel} for kernel in ("linear", "rbf", "laplacian", "rq")}
    cells, rows = _cells(job, models)
    trained = [row for row in rows if "name" in row and "probe" in row]
    shares = {row["name"]: _shares(job, cells, row) for row in trained}
    _write(job, "figure-eigenvalues", rows, shares_after_each_epoch={n: v.round(5).tolist() for n, v in shares.items()})
    if not trained:
        return rows
    with styled(job.out / "figure-eigenvalues", 16, 5.8) as figure:
        heading(
            figure,
            f"The {SHOWN} leading eigenvalues of the centred operator over training, on MNIST",
            "Share of the total variance in feature space, of one fixed batch; VICReg's in the embedding space itself. "
            "Dark: the largest.",
        )
        panels = np.atleast_1d(figure.subplots(1, len(trained), sharey=True))
        figure.subplots_adjust(left=0.06, right=0.99, top=0.74, bottom=0.11, wspace=0.08)
        for axes, row in zip(panels, trained, strict=True):
            epochs = np.arange(1, len(shares[row["name"]]) + 1)
            for number, values in enumerate(shares[row["name"]].T):
                axes.plot(epochs, 100 * values, color=_shade(number), linewidth=1.8)
            axes.set(xlabel="epoch", yscale="log", xticks=epochs[:: max(1, len(epochs) // 6)])
            axes.set_title(f"{row['name']}\nprobe {row['probe']:.1%}, effective rank {row['effective_rank']:.0f}")
            axes.grid(axis="y", alpha=0.25)
        panels[0].set_ylabel("share of the variance, %")
        panels[0].yaxis.set_major_formatter("{x:g}")
        panels[0].yaxis.set_minor_formatter("{x:g}")
    return rows


def _shares(job: Job, cells: Sequence[Cell], row: Row) -> np.ndarray:
    """The leading eigenvalues over their sum (epochs, SHOWN), as training recorded them."""
    cell = next(c for c in cells if c.labels["name"] == row["name"])
    with np.load(job.runs / cell.name / "spectrum.npz", allow_pickle=False) as kept:
        values = kept["eigenvalues"]
    found: np.ndarray = (values / values.sum(1, keepdims=True))[:, :SHOWN]
    return found


def _shade(number: int) -> Any:
    from matplotlib import colormaps

    return colormaps["cividis"](0.9 * number / max(1, SHOWN - 1))


def _cells(job: Job, models: dict[str, dict[str, Any]]) -> tuple[list[Cell], list[Row]]:
    """A cell of the first seed for each model, trained and measured."""
    cells = [job.cell({"name": name}, data="mnist", seed=job.seeds[0], **own) for name, own in models.items()]
    return cells, ([] if job.missing(["mnist"]) else job.rows(cells, folders=True))


def _write(job: Job, stem: str, rows: Sequence[Row], **about: Any) -> None:
    text = (
        f"{tables.summary(rows)}\n\n{tables.note(rows)}\n" if rows else "MNIST is not there: kvicreg data get mnist\n"
    )
    job.write(stem, rows, text, **about)


def _map(folder: Path, cell: Cell, job: Job) -> dict[str, Any]:
    _, score = splits(cell.config, job.on, cell.probe_images)
    score = first_images(score, min(IMAGES[job.budget], len(score)))
    assert score.labels is not None
    points = umap_points(extract(load_encoder(folder), score), seed=0)
    return {"points": [[round(v, 3) for v in point] for point in points.tolist()], "labels": score.labels.tolist()}
