"""What the settings of the loss matter: each varied by itself around the default, scored on held-out training images.

The test sets play no part here. VICReg's three weights are tuned on the same images, over the grid of their two
ratios, so that the comparison on the test set is with VICReg at its best.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from experiments.common import Cell, Experiment, Job, Result, Row, size_setting, tables
from experiments.common.drawing import GREY, legend, look, panels

Settings = dict[str, Any]
Factors = dict[str, dict[Any, Settings]]
"""What is varied: for each factor its values, as a table prints them, and the settings that they are."""


def _one(setting: str, *values: Any) -> dict[Any, Settings]:
    return {value: {setting: value} for value in values}


SIZES: Factors = {
    "batch size": {size: size_setting("batch size", size) for size in (64, 128, 512, 1024)},
    "projector width": {size: size_setting("projector width", size) for size in (128, 256, 1024, 2048, 4096)},
}
ENDS: Factors = {"projector ends in": _one("projector_final", "batch", "length")}
LOSS: Factors = {
    "invariance weight": _one("invariance_weight", 0.5, 1.0, 4.0, 8.0),
    "variance weight": _one("variance_weight", 0.25, 0.5, 2.0, 4.0),
    "covariance weight": _one("covariance_weight", 0.0, 0.005, 0.1, 0.5),
    "threshold": _one("threshold", 0.8, 1.0, 1.25, 2.0, 3.0),
    "eps": _one("eps", 1e-6, 1e-2),
    "covariance form": _one("covariance", "squared"),
    "diagonal": _one("include_diagonal", True),
    "parametrization": _one("parametrization", "paper"),
    "spectrum": _one("spectrum", "per-view"),
    "bandwidth, of the mean": _one("bandwidth_multiple", 0.25, 0.5, 2.0, 4.0),
    "bandwidth rule": {"median": {"bandwidth": "median"}, "1 / width": {"gamma": "1/width"}},
}
VICREG_WEIGHTS = {
    f"{i:g}, 25, {c:g}": {"invariance_weight": i, "variance_weight": 25.0, "covariance_weight": c}
    for i, c in product((5.0, 10.0, 25.0, 50.0), (0.2, 1.0, 5.0))
    if (i, c) != (25.0, 1.0)
}
FAMILIES: dict[str, tuple[Settings, Factors]] = {
    "rbf": ({"kernel": "rbf"}, LOSS | ENDS | SIZES),
    "vicreg": ({"method": "vicreg"}, {"weights": VICREG_WEIGHTS} | ENDS | SIZES),
}
"""Settings of each, and what is varied of it; the default itself is run too."""
MAIN = tuple(FAMILIES)
for method, factor, values in (
    ("simclr", "temperature", _one("temperature", 0.1, 0.2, 0.5, 1.0)),
    ("moco", "temperature", _one("temperature", 0.07, 0.2, 0.5, 1.0)),
    ("byol", "target momentum", _one("target_momentum", 0.9, 0.97, 0.99, 0.996)),
    ("barlow-twins", "redundancy weight", _one("redundancy_weight", 0.0051, 0.02, 0.1)),
    ("kernel-simclr", "temperature", _one("temperature", 0.05, 0.1, 0.2, 0.5)),
    ("kernel-barlow-twins", "redundancy weight", _one("redundancy_weight", 0.1, 0.3, 1.0)),
    ("ssl-hsic", "HSIC weight", _one("hsic_weight", 1.0, 3.0, 10.0)),
):
    FAMILIES[method] = {"method": method}, {factor: values}
ONLY = {"rbf": "cifar10"}
"""What is varied on one data set only; VICReg's weights are chosen on all of them."""
NETWORK = ("batch size", "projector width", "projector ends in")
"""Factors that are not of the loss."""
SETTING = {
    factor: [*settings][-1]
    for _, factors in FAMILIES.values()
    for factor, values in factors.items()
    for value, settings in values.items()
    if value in settings.values()
}
"""The setting that tells a factor's value in the default run; of others it is called "default"."""
COLUMNS = 4


@dataclass(frozen=True)
class Study(Experiment, name="study"):
    """Vary each setting of the loss by itself, and tune VICReg, on held-out training images.

    Some 110 runs of half a minute each on one core at the small budget.

    Examples:
        python -m experiments study --part 1/2
        python -m experiments study --only vicreg cifar10 weights --out docs/results
    """

    split = "validation"
    usual_seeds = (0,)
    page = "parametrization.md"
    few = {"data": ("cifar10",)}

    families: tuple[str, ...] = MAIN
    """What to vary: rbf, vicreg; simclr, moco, byol, barlow-twins, kernel-simclr, kernel-barlow-twins, ssl-hsic."""
    data: tuple[str, ...] = ("mnist", "fashion-mnist", "cifar10")
    """Data sets; rbf is varied on cifar10 only."""

    def cells(self, job: Job) -> list[Cell]:
        if unknown := set(self.families) - set(FAMILIES):
            raise ValueError(f"families: there is no {min(unknown)!r}; there are {', '.join(FAMILIES)}")
        pairs = [(data, name) for data in self.data for name in self.families if ONLY.get(name, data) == data]
        return [cell for data, name in pairs for seed in job.seeds for cell in family_cells(job, name, data, seed)]

    def about(self, result: Result) -> dict[str, Any]:
        """The best settings of every family, by the mean of the linear probe over the data sets."""
        return {"chosen": {family: chosen(result.rows, family) for family in self.families}}

    def table(self, result: Result) -> str:
        """A line for each value of each factor, a column for each family; controls last."""
        parts = result.opening()
        for source, rows in tables.groups(result.rows, "data").items():
            families, controls = _of_families_and_controls(rows)
            of, lines = tables.groups((row for same in families.values() for row in same), "factor", "value"), []
            for (factor, value), same in of.items():
                here = tables.groups(same, "family")
                lines.append([factor, value, *(tables.percent(here[f]) if f in here else "" for f in families)])
            lines += [["control", n, *[tables.percent(same)] * len(families)] for n, same in controls.items()]
            parts += [f"## {source}\n", f"{tables.markdown(['factor', 'value', *families], lines)}\n"]
        return "\n".join(parts)

    def figure(self, result: Result) -> None:
        for source, rows in tables.groups((row for row in result.rows if "probe" in row), "data").items():
            if any("family" in row for row in rows):
                draw(rows, source, result.job.out / f"study-{source}")


def family_cells(job: Job, family: str, data: str, seed: int) -> list[Cell]:
    """The default of a family, and its variations."""
    base, factors = FAMILIES[family]
    shared = {"data": data, "seed": seed, **job.narrow, **base}
    if job.budget == "smoke":  # one value of every factor, at sizes that its images allow
        factors = {name: dict([[*of.items()][-1]]) for name, of in factors.items() if name not in NETWORK[:2]}
    cells = []
    for factor, values in {"default": {"": Settings()}, **factors}.items():
        for value, change in values.items():
            if change.get("gamma") == "1/width":
                change = {"gamma": 1 / job.settings(**shared).flat()["projector_outputs"]}
            labels = {"family": family, "factor": factor, "value": value, "change": change}
            cells.append(job.cell(labels, **{**shared, **change}))
    return cells


def chosen(rows: Sequence[Row], family: str) -> dict[str, Any]:
    """The change of the loss with the best linear probe, on average over the data sets; the network stays."""
    of = tables.groups([r for r in rows if r.get("family") == family and "probe" in r], "factor", "value")
    count = max(map(len, of.values()), default=0)
    fair = {k: tables.average(same) for k, same in of.items() if len(same) == count and k[0] not in NETWORK}
    if not fair:
        return {}
    factor, value = best = max(fair, key=lambda key: fair[key])
    return {"factor": factor, "value": value, "settings": of[best][0]["change"], "probe": round(fair[best], 4)}


def tuned(path: Path, family: str = "vicreg") -> dict[str, Any] | None:
    """The settings that a study's result file has chosen for a family; None without such a file."""
    best = json.loads(path.read_text())["chosen"].get(family) if path.is_file() else None
    return dict(best["settings"]) if best else None


def _of_families_and_controls(rows: Sequence[Row]) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    trained, controls = ([row for row in rows if ("family" in row) == there] for there in (True, False))
    return tables.groups(trained, "family"), tables.groups(controls, "method")


def draw(rows: Sequence[Row], source: str, path: Path) -> None:
    """A panel for each factor, a line for each family."""
    families, controls = _of_families_and_controls(rows)
    trained = [row for row in rows if "family" in row]
    factors = [factor for factor in tables.groups(trained, "factor") if factor != "default"]
    lines, seeds = max(1, math.ceil(len(factors) / COLUMNS)), len({row["seed"] for row in trained})
    title, size = f"One setting at a time, on {source}", (16, 3.1 * lines + 1.6)
    detail = (
        f"Linear probe, % of {trained[0]['scored_on']:,} held-out training images; seeds: {seeds}. "
        "Hollow marks are the defaults, grey lines the controls."
    )
    with panels(path, size, title, detail, COLUMNS, lines, sharey=True) as grid:
        for axes in grid.flat[len(factors) :]:
            axes.remove()
        for axes, factor in zip(grid.flat, factors, strict=False):
            _panel(axes, families, factor)
            for dash, (name, same) in zip((":", "--"), controls.items(), strict=False):
                level = 100 * tables.average(same)
                axes.axhline(level, color=GREY, linewidth=1.2, linestyle=dash, label=name, zorder=1)
            axes.set_title(factor)
            axes.grid(axis="y")
        legend(grid.flat[: len(factors)])


def _panel(axes: Any, families: dict[str, list[Row]], factor: str) -> None:
    """Values in the order of size, where they have one, at equal distances; the default among them, hollow."""
    points: dict[str, dict[Any, float]] = {}
    usual: dict[str, Any] = {}
    for family, rows in families.items():
        of = tables.groups((row for row in rows if row["factor"] == factor), "value")
        if of and (defaults := [row for row in rows if row["factor"] == "default"]):
            usual[family] = defaults[0]["config"].get(SETTING.get(factor, ""), "default")
            of = {usual[family]: [*defaults, *of.pop(usual[family], ())], **of}
        points |= {family: {value: 100 * tables.average(same) for value, same in of.items()}} if of else {}
    values = dict.fromkeys(value for of_family in points.values() for value in of_family)  # as they were declared
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    order = sorted(values) if numbers else sorted(values, key=lambda v: v not in usual.values())
    place = {value: x for x, value in enumerate(order)}
    for number, (family, of_family) in enumerate(points.items()):
        shift = 0.08 * (number - (len(points) - 1) / 2)  # equal values stay visible
        at = {place[value] + shift: of_family[value] for value in sorted(of_family, key=lambda value: place[value])}
        line = "-" if numbers else "none"
        axes.plot([*at], [*at.values()], **look(family), markersize=6, linestyle=line, label=family)
        if family in usual:
            x, y = place[usual[family]] + shift, of_family[usual[family]]
            axes.plot(x, y, **look(family), markersize=10, markerfacecolor="white", zorder=3)
    axes.set_xticks(range(len(order)), [f"{v:g}" if numbers else str(v) for v in order])
    axes.set_xlim(-0.4, len(order) - 0.6)
    if len(order) > 6:
        axes.tick_params(axis="x", labelsize=8, rotation=60)
