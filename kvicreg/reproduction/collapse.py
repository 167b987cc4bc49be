"""Who collapses where: VICReg beside Kernel VICReg over two planes of settings, mapped by rank and by accuracy.

A batch size and learning rate, B width of the embeddings and weight of the variance term. The rank is the effective
rank of the embeddings under the linear kernel, the same measure for all. Embeddings of less than two directions have
collapsed; an encoder that does worse than it did untrained has failed, whatever its rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from kvicreg.data import first_images
from kvicreg.evaluation.diagnostics import effective_rank, spectrum
from kvicreg.evaluation.features import extract
from kvicreg.losses.kernel_vicreg import DEFAULT_WEIGHTS
from kvicreg.losses.vicreg import CONVENTIONS
from kvicreg.models import load_encoder
from kvicreg.reproduction import tables
from kvicreg.reproduction.cells import Cell, splits
from kvicreg.reproduction.drawing import heading, styled
from kvicreg.reproduction.jobs import Job
from kvicreg.reproduction.tables import Row

__all__ = ["COLLAPSED", "run"]

MODELS: dict[str, dict[str, Any]] = {
    "VICReg": {"method": "vicreg"},
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf"},
}
PLANES: dict[str, dict[str, tuple[str, Sequence[float], str, Sequence[float]]]] = {
    "smoke": {
        "A": ("batch size", (16, 64), "learning rate", (1e-3, 1e-2)),
        "B": ("projector width", (16,), "variance weight", (0.01, 1)),
    },
    "small": {
        "A": ("batch size", (16, 64, 256, 1024), "learning rate", (3e-4, 1e-3, 3e-3, 1e-2)),
        "B": ("projector width", (32, 256, 1024, 2048), "variance weight", (0.01, 0.1, 0.3, 1)),
    },
}
PLANES["full"] = PLANES["small"]
"""Two factors and their values; the variance weight is a factor on the default."""
COLLAPSED, RANK_IMAGES = 2.0, 2_000
"""Embeddings of a lower effective rank, over so many images, count as collapsed."""


def run(job: Job, data: str = "cifar10") -> list[Row]:
    """Write ``collapse-map`` as .png, .svg, .md, .csv and .json."""
    missing = job.missing([data])
    cells = [] if missing else _cells(job, data)
    rows = job.rows(cells, folders=True)
    of = {(c.labels["name"], c.labels["plane"], c.labels["down"], c.labels["across"], c.config.seed): c for c in cells}
    for row in rows:
        cell = of.get((row.get("name"), row.get("plane"), row.get("down"), row.get("across"), row["seed"]))
        if cell is not None and "probe" in row:
            row |= job.extra(cell, "rank", lambda folder, c=cell: _rank(folder, c))  # type: ignore[misc]
    job.write("collapse-map", rows, _markdown(job, rows, missing), missing=missing)
    if rows:
        _draw(job, rows, data)
    return rows


def _cells(job: Job, data: str) -> list[Cell]:
    cells = []
    few = {**job.narrow, "images": 5_000} if job.budget == "small" else job.narrow
    for plane, (down, lines, across, columns) in PLANES[job.budget].items():
        for name, model in MODELS.items():
            for line in lines:
                for column in columns:
                    own = {**few, **_setting(down, line, model), **_setting(across, column, model), **model}
                    labels = {"name": name, "plane": plane, "down": line, "across": column}
                    cells += [job.cell(labels, data=data, seed=seed, **own) for seed in job.seeds[:1]]
    return cells


def _setting(factor: str, value: float, model: dict[str, Any]) -> dict[str, Any]:
    if factor == "projector width":
        return {"projector_hidden": int(value), "projector_outputs": int(value)}
    if factor == "variance weight":
        usual = CONVENTIONS["official"].weights if "method" in model else DEFAULT_WEIGHTS["scaled"]
        return {} if value == 1 else {"variance_weight": usual[1] * value}
    return {"batch_size": int(value)} if factor == "batch size" else {"learning_rate": value}


def _rank(folder: Path, cell: Cell) -> dict[str, float]:
    """Effective rank of the embeddings of labelled training images."""
    fit, _ = splits(cell.config, "test" if not cell.config.holdout else "validation", RANK_IMAGES)
    z = extract(load_encoder(folder, projector=True), first_images(fit, min(RANK_IMAGES, len(fit))))
    return {"embedding_rank": effective_rank(spectrum(z))}


def _untrained(rows: Sequence[Row], score: str = "probe") -> float:
    return mean(row[score] for row in rows if row["method"] == "random encoder")


def _markdown(job: Job, rows: Sequence[Row], missing: dict[str, str]) -> str:
    parts = [tables.note(rows), ""] if rows else []
    parts += [f"Left out: {sentence}\n" for sentence in missing.values()]
    if rows:
        trained = [row for row in rows if "plane" in row]
        columns = (
            "runs",
            "collapsed",
            "probe below the untrained encoder's",
            "20-NN below",
            "mean probe",
            "mean 20-NN",
        )
        lines = [f"| | {' | '.join(columns)} | probe above VICReg's |", "|---" * (len(columns) + 2) + "|"]
        rival = {_place(row): row["probe"] for row in trained if row["name"] == "VICReg" and "probe" in row}
        for (name,), same in tables.groups(trained, "name").items():
            gone = sum(row.get("embedding_rank", 0) < COLLAPSED for row in same)
            below = [sum(row.get(score, 0) < _untrained(rows, score) for row in same) for score in ("probe", "knn")]
            means = [f"{100 * mean(row.get(score, 0) for row in same):.1f}" for score in ("probe", "knn")]
            above = "" if name == "VICReg" else sum(row.get("probe", 0) > rival.get(_place(row), 0) for row in same)
            lines.append(f"| {' | '.join(map(str, (name, len(same), gone, *below, *means, above)))} |")
        scores = f"{_untrained(rows):.1%} and {_untrained(rows, 'knn'):.1%}"
        said = f"Collapsed: embeddings with an effective rank below {COLLAPSED:g}. The untrained encoder has {scores}."
        parts += ["\n".join(lines), "", said, ""]
    return "\n".join(parts)


def _place(row: Row) -> tuple[Any, ...]:
    return row["plane"], row["down"], row["across"], row["seed"]


def _draw(job: Job, rows: Sequence[Row], data: str) -> None:
    """A heat map for each model, plane and measure; a cross where the embeddings have collapsed."""
    import numpy as np
    from matplotlib.colors import LogNorm, Normalize

    planes = PLANES[job.budget]
    bar = _untrained(rows)
    trained = [row for row in rows if "plane" in row and "probe" in row]
    measures = {"embedding_rank": "effective rank", "probe": "linear probe, %"}
    scores, ranks = [100 * row["probe"] for row in trained], [row["embedding_rank"] for row in trained]
    scales = {"embedding_rank": LogNorm(1, max(ranks)), "probe": Normalize(min(scores), max(scores))}
    with styled(job.out / "collapse-map", 15, 16.5) as figure:
        heading(
            figure,
            f"Who collapses where, on {data}",
            f"✕: effective rank of the embeddings below {COLLAPSED:g}; boxed: probe below the untrained encoder's, "
            f"{bar:.1%}.",
        )
        panels = figure.subplots(2 * len(planes), len(MODELS), squeeze=False)
        figure.subplots_adjust(left=0.075, right=0.9, top=0.925, bottom=0.04, wspace=0.12, hspace=0.42)
        for line, (plane, measure) in enumerate((p, m) for p in planes for m in measures):
            down, values, across, columns = planes[plane]
            for axes, name in zip(panels[line], MODELS, strict=True):
                shown = np.full((len(values), len(columns)), np.nan)
                for row in trained:
                    if (row["name"], row["plane"]) == (name, plane) and measure in row:
                        at = list(values).index(row["down"]), list(columns).index(row["across"])
                        shown[at] = row[measure] * (100 if measure == "probe" else 1)
                        _mark(axes, at, row, shown[at], scales[measure](shown[at]) > 0.5, bar)
                image = axes.imshow(shown, cmap="cividis", norm=scales[measure], aspect="auto")
                axes.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
                axes.set_yticks(range(len(values)), [f"{value:g}" for value in values] if name == "VICReg" else [])
                axes.set(xlabel=f"{across}{', of the default' if across == 'variance weight' else ''}", title=name)
                axes.spines[:].set_visible(False)
            panels[line][0].set_ylabel(down)
            place = panels[line][-1].get_position()
            bars = figure.colorbar(image, cax=figure.add_axes((0.915, place.y0, 0.012, place.height)))
            bars.set_label(measures[measure])


def _mark(axes: Any, at: tuple[int, int], row: Row, value: float, bright: bool, bar: float) -> None:
    from matplotlib.patches import Rectangle

    y, x = at
    colour = "black" if bright else "white"
    gone = row["embedding_rank"] < COLLAPSED
    axes.text(x, y, f"{value:.0f}{' ✕' if gone else ''}", ha="center", va="center", color=colour, fontsize=11)
    if row["probe"] < bar:
        axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor="#D55E00", linewidth=2.5))
