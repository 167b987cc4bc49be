"""Who collapses where: VICReg beside Kernel VICReg over two planes of settings, mapped by rank and by accuracy.

A batch size and learning rate, B width of the embeddings and weight of the variance term. The rank is the effective
rank of the embeddings under the linear kernel, the same measure for all. Embeddings of less than two directions have
collapsed; an encoder that does worse than it did untrained has failed, whatever its rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter
from torch import nn

from experiments.common import Cell, Experiment, Job, Result, Row, size_setting, splits, tables
from experiments.common.drawing import RED, panels
from kvicreg.data import first_images
from kvicreg.losses.three_terms import DEFAULT_WEIGHTS
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
        "A": ("batch size", (64,), "learning rate", (1e-3, 1e-2)),
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

    former = True
    split = "validation"
    usual_seeds = (0,)
    columns = ("embedding_rank",)
    of_controls = False

    def cells(self, job: Job) -> list[Cell]:
        shared = {"data": DATA, "seed": job.seeds[0], **job.narrow} | ({"images": 5_000} if job.narrow else {})
        cells = []
        for plane, (down, lines, across, columns) in PLANES[job.budget].items():
            for (name, model), line, column in product(MODELS.items(), lines, columns):
                labels = {"name": name, "plane": plane, "down": line, "across": column}
                changes = setting_of(down, line, model) | setting_of(across, column, model) | model
                cells.append(job.cell(labels, **{**shared, **changes}))
        return cells

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        row = super().measure(job, cell, encoder)
        if cell.control is None:
            images = first_images(fit := splits(cell)[0], min(RANK_IMAGES, len(fit)))
            embeddings = extract(load_encoder(job.runs / cell.name, projector=True), images)
            row["embedding_rank"] = effective_rank(spectrum(embeddings))
        return row

    def table(self, result: Result) -> str:
        if not result.rows:
            return super().table(result)
        untrained = _untrained(result.rows)
        of = tables.groups((row for row in result.rows if "plane" in row), "name")
        rival = {_place(row): row["probe"] for row in of.get("VICReg", ()) if "probe" in row}
        lines = []
        for name, same in of.items():
            gone = sum(row.get("embedding_rank", 0) < COLLAPSED for row in same)
            below = [sum(row.get(score, 0) < level for row in same) for score, level in untrained.items()]
            means = [f"{100 * tables.average(same, score):.1f}" for score in untrained]
            above = "" if name == "VICReg" else sum(row.get("probe", 0) > rival.get(_place(row), 0) for row in same)
            lines.append([name, len(same), gone, *below, *means, above])
        below_untrained = ["probe below the untrained encoder's", "20-NN below"]
        titles = ["", "runs", "collapsed", *below_untrained, "mean probe", "mean 20-NN", "probe above VICReg's"]
        scores = " and ".join(f"{level:.1%}" for level in untrained.values())
        end = f"Collapsed: embeddings with an effective rank below {COLLAPSED:g}. The untrained encoder has {scores}."
        return "\n".join([*result.opening(), tables.markdown(titles, lines), "", end, ""])

    def figure(self, result: Result) -> None:
        """A heat map for each model, plane and measure; a cross where the embeddings have collapsed."""
        of, untrained = tables.groups(result.trained, "plane", "name"), _untrained(result.rows)["probe"]
        planes, scores = PLANES[result.job.budget], [row["probe"] for row in result.trained]
        ranks = LogNorm(1, max(row["embedding_rank"] for row in result.trained))
        shown = {
            "embedding_rank": ("effective rank", ranks),
            "probe": ("linear probe", Normalize(min(scores), max(scores))),
        }
        detail = (
            f"✕: effective rank of the embeddings below {COLLAPSED:g}; boxed: probe below the untrained encoder's, "
            f"{untrained:.1%}."
        )
        path, title = result.job.out / self.stem, f"Who collapses where, on {DATA}"
        with panels(path, (15, 16.5), title, detail, len(MODELS), 2 * len(planes), sharey="row") as grid:
            for line, (plane, (measure, (label, scale))) in zip(grid, product(planes, shown.items()), strict=True):
                for axes, name in zip(line, MODELS, strict=True):
                    image = _heat_map(axes, of.get((plane, name), []), planes[plane], measure, scale, untrained)
                    axes.set_title(name)
                line[0].set_ylabel(planes[plane][0])
                bar = line[0].figure.colorbar(image, ax=line, label=label, aspect=15, pad=0.01)
                if measure == "probe":
                    bar.formatter = PercentFormatter(1)


def setting_of(factor: str, value: float, model: dict[str, Any]) -> dict[str, Any]:
    """The settings of a factor's value."""
    if factor == "variance weight":
        usual = CONVENTIONS["official"].weights if "method" in model else DEFAULT_WEIGHTS["scaled"]
        return {} if value == 1 else {"variance_weight": usual[1] * value}
    return {"learning_rate": value} if factor == "learning rate" else size_setting(factor, value)


def _untrained(rows: Sequence[Row]) -> dict[str, float]:
    random = [row for row in rows if row["method"] == "random encoder"]
    return {score: tables.average(random, score) for score in ("probe", "knn")}


def _place(row: Row) -> tuple[Any, ...]:
    return row["plane"], row["down"], row["across"], row["seed"]


def _heat_map(
    axes: Any, rows: Sequence[Row], plane: tuple[Any, ...], measure: str, scale: Any, untrained: float
) -> Any:
    _, lines, across, columns = plane
    values = np.full((len(lines), len(columns)), np.nan)
    for row in rows:
        y, x = at = list(lines).index(row["down"]), list(columns).index(row["across"])
        values[at] = row[measure]
        number = f"{100 * row[measure]:.0f}" if measure == "probe" else f"{row[measure]:.0f}"
        text, colour = (
            number + " ✕" * (row["embedding_rank"] < COLLAPSED),
            "white" if scale(values[at]) <= 0.5 else "black",
        )
        axes.text(x, y, text, ha="center", va="center", color=colour)
        if row["probe"] < untrained:
            axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor=RED, linewidth=2.5))
    image = axes.imshow(values, cmap="cividis", norm=scale, aspect="auto")
    axes.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    axes.set_yticks(range(len(lines)), [f"{value:g}" for value in lines])
    axes.set_xlabel(f"{across}{', of the default' if across == 'variance weight' else ''}")
    axes.spines[:].set_visible(False)
    return image
