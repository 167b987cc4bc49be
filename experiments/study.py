"""What the settings of the loss matter: each varied by itself around the default, scored on held-out training images.

The test sets play no part here. VICReg's three weights are tuned on the same images, over the grid of their two
ratios, so that the comparison on the test set is with VICReg at its best.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from experiments.common import Cell, Experiment, Job, Result, Row, tables
from experiments.common.drawing import COLOURS, GREY, MARKS, figure_in, legend


class Variation(NamedTuple):
    """One setting changed: the factor it belongs to, its value as a table prints it, and the settings."""

    factor: str
    value: Any
    settings: dict[str, Any]


def _one(factor: str, setting: str, *values: Any) -> list[Variation]:
    return [Variation(factor, value, {setting: value}) for value in values]


SIZES = [
    *_one("batch size", "batch_size", 64, 128, 512, 1024),
    *(
        Variation("projector width", v, {"projector_hidden": v, "projector_outputs": v})
        for v in (128, 256, 1024, 2048, 4096)
    ),
]
ENDS = _one("projector ends in", "projector_final", "batch", "length")
LOSS = [
    *_one("invariance weight", "invariance_weight", 0.25, 0.5, 2.0, 4.0),
    *_one("variance weight", "variance_weight", 0.25, 0.5, 2.0, 4.0),
    *_one("covariance weight", "covariance_weight", 0.0, 0.005, 0.1, 0.5),
    *_one("threshold", "threshold", 0.8, 1.0, 1.25, 2.0, 3.0),
    *_one("eps", "eps", 1e-6, 1e-2),
    *_one("covariance form", "covariance", "squared"),
    *_one("diagonal", "include_diagonal", True),
    *_one("parametrization", "parametrization", "paper"),
]
BANDWIDTH = [
    *_one("bandwidth, of the median", "bandwidth_multiple", 0.25, 0.5, 2.0, 4.0),
    Variation("bandwidth rule", "smoothed", {"bandwidth_momentum": 0.9}),
    Variation("bandwidth rule", "1 / width", {"gamma": "1/width"}),
]
VICREG_WEIGHTS = [
    Variation("weights", f"{i:g}, 25, {c:g}", {"invariance_weight": i, "variance_weight": 25.0, "covariance_weight": c})
    for i in (5.0, 10.0, 25.0, 50.0)
    for c in (0.2, 1.0, 5.0)
    if (i, c) != (25.0, 1.0)
]
FAMILIES: dict[str, tuple[dict[str, Any], list[Variation]]] = {
    "linear": ({"kernel": "linear"}, [*LOSS, *ENDS, *SIZES]),
    "rbf": ({"kernel": "rbf"}, [*LOSS, *BANDWIDTH, *ENDS, *SIZES]),
    "vicreg": ({"method": "vicreg"}, [*VICREG_WEIGHTS, *ENDS, *SIZES]),
}
"""Settings of each, and what is varied of it; the default itself is run too."""
MAIN = tuple(FAMILIES)
FAMILIES |= {
    method: ({"method": method}, variations)
    for method, variations in {
        "simclr": _one("temperature", "temperature", 0.1, 0.2, 0.5, 1.0),
        "moco": _one("temperature", "temperature", 0.07, 0.2, 0.5, 1.0),
        "byol": _one("target momentum", "target_momentum", 0.9, 0.97, 0.99, 0.996),
        "barlow-twins": _one("redundancy weight", "redundancy_weight", 0.0051, 0.02, 0.1),
        "kernel-simclr": _one("temperature", "temperature", 0.05, 0.1, 0.2, 0.5),
        "kernel-barlow-twins": _one("redundancy weight", "redundancy_weight", 0.1, 0.3, 1.0),
        "ssl-hsic": _one("HSIC weight", "hsic_weight", 1.0, 3.0, 10.0),
    }.items()
}
NETWORK = ("batch size", "projector width", "projector ends in")
"""Factors that are not of the loss."""
SETTING = {v.factor: [*v.settings][-1] for _, vs in FAMILIES.values() for v in vs if v.value in v.settings.values()}
"""The setting that tells a factor's value in the default run; of others it is called "default"."""
COLUMNS = 4


@dataclass(frozen=True)
class Study(Experiment, name="study"):
    """Vary each setting of the loss by itself, and tune VICReg, on held-out training images.

    Some 290 runs of half a minute each on one core at the small budget.

    Examples:
        python -m experiments study --part 1/2
        python -m experiments study --only vicreg cifar10 weights --out docs/results
    """

    split = "validation"
    usual_seeds = (0,)
    page = "parametrization.md"
    few = {"data": ("mnist",)}

    families: tuple[str, ...] = MAIN
    """What to vary: linear, rbf, vicreg; simclr, moco, byol, barlow-twins, kernel-simclr, kernel-barlow-twins,
    ssl-hsic."""
    data: tuple[str, ...] = ("mnist", "fashion-mnist", "cifar10")
    """Data sets."""

    def cells(self, job: Job) -> list[Cell]:
        unknown = set(self.families) - set(FAMILIES)
        if unknown:
            raise ValueError(f"families: there is no {sorted(unknown)[0]!r}; there are {', '.join(FAMILIES)}")
        return [c for d in self.data for f in self.families for s in job.seeds for c in family_cells(job, f, d, s)]

    def about(self, result: Result) -> dict[str, Any]:
        """The best settings of every family, by the mean of the linear probe over the data sets."""
        return {"chosen": {family: chosen(result.rows, family) for family in self.families}}

    def table(self, result: Result) -> str:
        parts = result.opening()
        for (source,), rows in tables.groups(result.rows, "data").items():
            parts += [f"## {source}\n", f"{_table(rows)}\n"]
        return "\n".join(parts)

    def figure(self, result: Result) -> None:
        for (source,), rows in tables.groups([row for row in result.rows if "probe" in row], "data").items():
            if any("family" in row for row in rows):
                draw(rows, source, result.job.out / f"study-{source}")

    @classmethod
    def for_page(cls, results: Path) -> str:
        path = results / "study.json"
        return tables.on_page(path) if path.is_file() else "Not run yet: `python -m experiments study`.\n"


def family_cells(job: Job, family: str, data: str, seed: int) -> list[Cell]:
    """The default of a family, and its variations."""
    base, variations = FAMILIES[family]
    shared = {"data": data, "seed": seed, **job.narrow, **base}
    if job.budget == "smoke":  # one value of every factor, at sizes that its images allow
        variations = [*{v.factor: v for v in variations if v.factor not in NETWORK[:2]}.values()]
    cells = [job.cell({"family": family, "factor": "default", "value": "", "change": {}}, **shared)]
    for factor, value, change in variations:
        if change.get("gamma") == "1/width":
            change = {"gamma": 1 / job.settings(**shared).flat()["projector_outputs"]}
        labels = {"family": family, "factor": factor, "value": value, "change": change}
        cells.append(job.cell(labels, **{**shared, **change}))
    return cells


def chosen(rows: Sequence[Row], family: str) -> dict[str, Any]:
    """The change of the loss with the best linear probe, on average over the data sets; the network stays."""
    of = tables.groups([r for r in rows if r.get("family") == family and "probe" in r], "factor", "value")
    count = max((len(same) for same in of.values()), default=0)
    fair = {
        key: mean(row["probe"] for row in same)
        for key, same in of.items()
        if len(same) == count and key[0] not in NETWORK
    }
    if not fair:
        return {}
    factor, value = best = max(fair, key=lambda key: fair[key])
    return {"factor": factor, "value": value, "settings": of[best][0]["change"], "probe": round(fair[best], 4)}


def tuned(path: Path, family: str = "vicreg") -> dict[str, Any] | None:
    """The settings that a study's result file has chosen for a family; None without such a file."""
    best = json.loads(path.read_text())["chosen"].get(family) if path.is_file() else None
    return dict(best["settings"]) if best else None


def _table(rows: Sequence[Row]) -> str:
    """A line for each value of each factor, a column for each family; controls last."""
    trained = [row for row in rows if "family" in row]
    families = list(dict.fromkeys(row["family"] for row in trained))
    of = tables.groups(trained, "factor", "value", "family")
    lines = [
        [factor, value, *(tables.percent(of[key]) if (key := (factor, value, f)) in of else "" for f in families)]
        for factor, value in dict.fromkeys((row["factor"], row["value"]) for row in trained)
    ]
    for (name,), same in tables.groups([row for row in rows if "family" not in row], "method").items():
        lines.append(["control", name, *[tables.percent(same)] * len(families)])
    return tables.markdown(["factor", "value", *families], lines)


def draw(rows: Sequence[Row], source: str, path: Path) -> None:
    """A panel for each factor, a line for each family."""
    trained = [row for row in rows if "family" in row]
    factors = [f for f in dict.fromkeys(row["factor"] for row in trained) if f != "default"]
    of_controls = tables.groups([row for row in rows if "family" not in row], "method")
    controls = [(name[0], 100 * mean(r["probe"] for r in same)) for name, same in of_controls.items()]
    lines, seeds = math.ceil(len(factors) / COLUMNS), len({row["seed"] for row in trained})
    height = 3.1 * lines + 1.6
    detail = (
        f"Linear probe, % of {trained[0]['scored_on']:,} held-out training images; seeds: {seeds}. "
        "Hollow marks are the defaults, grey lines the controls."
    )
    with figure_in(path, 16, height, f"One setting at a time, on {source}", detail) as figure:
        place = {"left": 0.05, "right": 0.99, "top": 1 - 1.35 / height, "bottom": 0.22 / max(lines, 1)}
        grid = figure.add_gridspec(max(lines, 1), COLUMNS, **place, wspace=0.22, hspace=0.55)
        first = None
        for number, factor in enumerate(factors):
            axes = figure.add_subplot(grid[number // COLUMNS, number % COLUMNS], sharey=first)
            first = first or axes
            _panel(axes, trained, factor)
            for dash, (name, level) in zip((":", "--"), controls, strict=False):
                axes.axhline(level, color=GREY, linewidth=1.2, linestyle=dash, label=name, zorder=1)
            axes.set_title(factor)
            axes.grid(axis="y", alpha=0.25)
        legend(figure.axes, loc="upper right", bbox_to_anchor=(0.995, 1.0))


def _panel(axes: Any, trained: Sequence[Row], factor: str) -> None:
    """Values in the order of size, where they have one, at equal distances; the default among them."""
    points: dict[str, dict[Any, list[float]]] = {}
    usual: dict[str, Any] = {}
    for row in trained:
        if row["factor"] == "default" and any(r["factor"] == factor and r["family"] == row["family"] for r in trained):
            value = usual[row["family"]] = row["config"].get(SETTING.get(factor, ""), "default")
        elif row["factor"] == factor:
            value = row["value"]
        else:
            continue
        points.setdefault(row["family"], {}).setdefault(value, []).append(100 * row["probe"])
    values = dict.fromkeys(value for of_family in points.values() for value in of_family)  # as they were declared
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    order = sorted(values) if numbers else sorted(values, key=lambda v: v not in usual.values())
    place = {value: x for x, value in enumerate(order)}
    for number, (family, of_family) in enumerate(points.items()):
        at = sorted(of_family, key=lambda value: place[value])
        style = {"color": COLOURS.get(family, "black"), "marker": MARKS.get(family, "o")}
        shift = 0.08 * (number - (len(points) - 1) / 2)  # equal values stay visible
        x, y = [place[v] + shift for v in at], [mean(of_family[v]) for v in at]
        axes.plot(x, y, **style, markersize=6, linestyle="-" if numbers else "none", label=family)
        if usual.get(family) in at:
            here = at.index(usual[family])
            axes.plot(x[here], y[here], **style, markersize=10, markerfacecolor="white", zorder=3)
    axes.set_xticks(range(len(order)), [f"{v:g}" if numbers else str(v) for v in order])
    axes.set_xlim(-0.4, len(order) - 0.6)
    if len(order) > 6:
        axes.tick_params(axis="x", labelsize=8, rotation=60)
