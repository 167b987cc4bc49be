"""Who collapses where: VICReg beside Kernel VICReg over two planes of settings, mapped by rank and by accuracy.

A batch size and learning rate, B width of the embeddings and weight of the variance term. The rank is the effective
rank of the embeddings under the linear kernel, the same measure for all. Embeddings of less than two directions have
collapsed; an encoder that does worse than it did untrained has failed, whatever its rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle
from torch import nn

from experiments.common import Cell, Experiment, Job, Result, Row, Section, splits, tables
from experiments.common.drawing import RED, figure_in
from kvicreg.data import first_images
from kvicreg.losses.kernel_vicreg import DEFAULT_WEIGHTS
from kvicreg.losses.vicreg import CONVENTIONS
from kvicreg.measures.features import extract
from kvicreg.measures.spectrum import effective_rank, spectrum
from kvicreg.runs import load_encoder

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
DATA = "cifar10"


class CollapseMap(Experiment, name="collapse-map"):
    """Who collapses where: VICReg beside Kernel VICReg over batch size, rate, width and weight."""

    place = 11
    sections = (Section("Who collapses where", "VICReg beside Kernel VICReg, scored on held-out training images."),)
    split = "validation"
    usual_seeds = (0,)
    columns = ("embedding_rank",)
    of_controls = False

    def cells(self, job: Job) -> list[Cell]:
        few = {**job.narrow, "images": 5_000} if job.budget == "small" else job.narrow
        return [
            job.cell(
                {"name": name, "plane": plane, "down": line, "across": column},
                data=DATA,
                seed=job.seeds[0],
                **{**few, **setting_of(down, line, model), **setting_of(across, column, model), **model},
            )
            for plane, (down, lines, across, columns) in PLANES[job.budget].items()
            for name, model in MODELS.items()
            for line in lines
            for column in columns
        ]

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        return super().measure(job, cell, encoder) | ({} if cell.control else {"embedding_rank": _rank(job, cell)})

    def table(self, result: Result) -> str:
        rows = result.rows
        if not rows:
            return super().table(result)
        runs = [row for row in rows if "plane" in row]
        rival = {_place(row): row["probe"] for row in runs if row["name"] == "VICReg" and "probe" in row}
        lines = []
        for (name,), same in tables.groups(runs, "name").items():
            gone = sum(row.get("embedding_rank", 0) < COLLAPSED for row in same)
            below = [sum(row.get(score, 0) < _untrained(rows, score) for row in same) for score in ("probe", "knn")]
            means = [f"{100 * mean(row.get(score, 0) for row in same):.1f}" for score in ("probe", "knn")]
            above = "" if name == "VICReg" else sum(row.get("probe", 0) > rival.get(_place(row), 0) for row in same)
            lines.append([name, len(same), gone, *below, *means, above])
        below_untrained = ["probe below the untrained encoder's", "20-NN below"]
        titles = ["", "runs", "collapsed", *below_untrained, "mean probe", "mean 20-NN", "probe above VICReg's"]
        scores = f"{_untrained(rows):.1%} and {_untrained(rows, 'knn'):.1%}"
        end = f"Collapsed: embeddings with an effective rank below {COLLAPSED:g}. The untrained encoder has {scores}."
        return "\n".join([*result.opening(), tables.markdown(titles, lines), "", end, ""])

    def figure(self, result: Result) -> None:
        """A heat map for each model, plane and measure; a cross where the embeddings have collapsed."""
        runs, untrained = result.trained, _untrained(result.rows)
        measures = {"embedding_rank": "effective rank", "probe": "linear probe, %"}
        scores, ranks = [100 * row["probe"] for row in runs], [row["embedding_rank"] for row in runs]
        scales = {"embedding_rank": LogNorm(1, max(ranks)), "probe": Normalize(min(scores), max(scores))}
        planes = PLANES[result.job.budget]
        detail = (
            f"✕: effective rank of the embeddings below {COLLAPSED:g}; boxed: probe below the untrained encoder's, "
            f"{untrained:.1%}."
        )
        with figure_in(result.job.out / self.stem, 15, 16.5, f"Who collapses where, on {DATA}", detail) as figure:
            panels = figure.subplots(2 * len(planes), len(MODELS), squeeze=False)
            figure.subplots_adjust(left=0.075, right=0.9, top=0.925, bottom=0.04, wspace=0.12, hspace=0.42)
            for line, (plane, measure) in enumerate((p, m) for p in planes for m in measures):
                for axes, name in zip(panels[line], MODELS, strict=True):
                    here = [row for row in runs if (row["name"], row["plane"]) == (name, plane)]
                    image = _heat_map(axes, here, planes[plane], measure, scales[measure], untrained)
                    axes.set_title(name)
                    if name != "VICReg":
                        axes.set_yticklabels([])
                panels[line][0].set_ylabel(planes[plane][0])
                place = panels[line][-1].get_position()
                bars = figure.colorbar(image, cax=figure.add_axes((0.915, place.y0, 0.012, place.height)))
                bars.set_label(measures[measure])


def setting_of(factor: str, value: float, model: dict[str, Any]) -> dict[str, Any]:
    """The settings of a factor's value."""
    if factor == "projector width":
        return {"projector_hidden": int(value), "projector_outputs": int(value)}
    if factor == "variance weight":
        usual = CONVENTIONS["official"].weights if "method" in model else DEFAULT_WEIGHTS["scaled"]
        return {} if value == 1 else {"variance_weight": usual[1] * value}
    return {"batch_size": int(value)} if factor == "batch size" else {"learning_rate": value}


def _rank(job: Job, cell: Cell) -> float:
    """Effective rank of the embeddings of labelled training images."""
    fit, _ = splits(cell)
    encoder = load_encoder(job.runs / cell.name, projector=True)
    return effective_rank(spectrum(extract(encoder, first_images(fit, min(RANK_IMAGES, len(fit))))))


def _untrained(rows: Sequence[Row], score: str = "probe") -> float:
    return mean(row[score] for row in rows if row["method"] == "random encoder")


def _place(row: Row) -> tuple[Any, ...]:
    return row["plane"], row["down"], row["across"], row["seed"]


def _heat_map(
    axes: Any, rows: Sequence[Row], plane: tuple[Any, ...], measure: str, scale: Any, untrained: float
) -> Any:
    _, lines, across, columns = plane
    shown = np.full((len(lines), len(columns)), np.nan)
    for row in rows:
        y, x = at = list(lines).index(row["down"]), list(columns).index(row["across"])
        shown[at] = row[measure] * (100 if measure == "probe" else 1)
        text = f"{shown[at]:.0f}{' ✕' if row['embedding_rank'] < COLLAPSED else ''}"
        colour = "black" if scale(shown[at]) > 0.5 else "white"
        axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=11)
        if row["probe"] < untrained:
            axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor=RED, linewidth=2.5))
    image = axes.imshow(shown, cmap="cividis", norm=scale, aspect="auto")
    axes.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    axes.set_yticks(range(len(lines)), [f"{value:g}" for value in lines])
    axes.set_xlabel(f"{across}{', of the default' if across == 'variance weight' else ''}")
    axes.spines[:].set_visible(False)
    return image
