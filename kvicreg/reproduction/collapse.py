"""Who collapses where: VICReg beside Kernel VICReg over two planes of settings, mapped by rank and by accuracy.

A batch size and learning rate, B width of the embeddings and weight of the variance term. The rank is that of the
embeddings under the linear kernel, the same measure for all: the effective rank over the most it could be.
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
COLLAPSED, RANK_IMAGES = 0.05, 2_000
"""Embeddings that use less than this share of their directions count as collapsed."""


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
    """Effective rank of the embeddings of labelled training images, over the most it could be."""
    fit, _ = splits(cell.config, "test" if not cell.config.holdout else "validation", RANK_IMAGES)
    z = extract(load_encoder(folder, projector=True), first_images(fit, min(RANK_IMAGES, len(fit))))
    rank, bound = effective_rank(spectrum(z)), min(len(z) - 1, z.shape[1])
    return {"embedding_rank": rank, "embedding_rank_share": rank / bound}


def _worse_than_untrained(rows: Sequence[Row]) -> float:
    return mean(row["probe"] for row in rows if row["method"] == "random encoder")


def _markdown(job: Job, rows: Sequence[Row], missing: dict[str, str]) -> str:
    parts = [tables.note(rows), ""] if rows else []
    parts += [f"Left out: {sentence}\n" for sentence in missing.values()]
    if rows:
        bar = _worse_than_untrained(rows)
        trained = [row for row in rows if "plane" in row]
        lines = ["| | of | collapsed | below the untrained encoder |", "|---|---|---|---|"]
        for (name,), same in tables.groups(trained, "name").items():
            gone = sum(row.get("embedding_rank_share", 0) < COLLAPSED for row in same)
            below = sum(row.get("probe", 0) < bar for row in same)
            lines.append(f"| {name} | {len(same)} | {gone} | {below} |")
        said = f"Collapsed: embeddings with an effective rank below {COLLAPSED:.0%} of what it could be."
        parts += ["\n".join(lines), "", f"{said} The untrained encoder's probe: {bar:.1%}.", ""]
    return "\n".join(parts)


def _draw(job: Job, rows: Sequence[Row], data: str) -> None:
    """A heat map for each model, plane and measure; a cross where the embeddings have collapsed."""
    import numpy as np

    planes = PLANES[job.budget]
    bar = _worse_than_untrained(rows)
    trained = [row for row in rows if "plane" in row]
    measures = {"embedding_rank_share": "effective rank, % of what it could be", "probe": "linear probe, %"}
    scores = [100 * row["probe"] for row in trained if "probe" in row]
    ranges = {"embedding_rank_share": (0.0, 100.0), "probe": (min(scores), max(scores))}
    with styled(job.out / "collapse-map", 15, 16.5) as figure:
        heading(
            figure,
            f"Who collapses where, on {data}",
            f"✕: collapsed embeddings (below {COLLAPSED:.0%}); boxed: probe below the untrained encoder's, {bar:.1%}.",
        )
        panels = figure.subplots(2 * len(planes), len(MODELS), squeeze=False)
        figure.subplots_adjust(left=0.075, right=0.9, top=0.925, bottom=0.04, wspace=0.12, hspace=0.42)
        for line, (plane, measure) in enumerate((p, m) for p in planes for m in measures):
            down, values, across, columns = planes[plane]
            low, high = ranges[measure]
            for axes, name in zip(panels[line], MODELS, strict=True):
                shown = np.full((len(values), len(columns)), np.nan)
                for row in trained:
                    if (row["name"], row["plane"]) == (name, plane) and measure in row:
                        at = list(values).index(row["down"]), list(columns).index(row["across"])
                        shown[at] = 100 * row[measure]
                        _mark(axes, at, row, shown[at], (low + high) / 2, bar)
                image = axes.imshow(shown, cmap="cividis", vmin=low, vmax=high, aspect="auto")
                axes.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
                axes.set_yticks(range(len(values)), [f"{value:g}" for value in values] if name == "VICReg" else [])
                axes.set(xlabel=f"{across}{', of the default' if across == 'variance weight' else ''}", title=name)
                axes.spines[:].set_visible(False)
            panels[line][0].set_ylabel(down)
            place = panels[line][-1].get_position()
            bars = figure.colorbar(image, cax=figure.add_axes((0.915, place.y0, 0.012, place.height)))
            bars.set_label(measures[measure])


def _mark(axes: Any, at: tuple[int, int], row: Row, value: float, middle: float, bar: float) -> None:
    from matplotlib.patches import Rectangle

    y, x = at
    colour = "black" if value > middle else "white"
    gone = row.get("embedding_rank_share", 1) < COLLAPSED
    axes.text(x, y, f"{value:.0f}{' ✕' if gone else ''}", ha="center", va="center", color=colour, fontsize=11)
    if row["probe"] < bar:
        axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor="#D55E00", linewidth=2.5))
