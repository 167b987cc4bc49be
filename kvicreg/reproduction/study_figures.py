"""The parametrization study as one picture for each data set: a panel for each factor, a line for each family."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.axes import Axes

from kvicreg.reproduction import tables
from kvicreg.reproduction.drawing import COLOURS, MARKS, heading, reference_lines, styled
from kvicreg.reproduction.tables import Row

__all__ = ["draw"]

DEFAULTS = {
    "batch size": "batch_size",
    "projector width": "projector_outputs",
    "invariance weight": "invariance_weight",
    "variance weight": "variance_weight",
    "covariance weight": "covariance_weight",
    "threshold": "threshold",
    "eps": "eps",
    "covariance form": "covariance",
    "diagonal": "include_diagonal",
    "parametrization": "parametrization",
    "bandwidth, of the median": "bandwidth_multiple",
    "projector ends in": "projector_final",
}
"""The setting that tells a factor's value in the default run; of others it is called "default"."""
COLUMNS = 4


def draw(rows: Sequence[Row], out: Path) -> None:
    """Write study-DATA.png and .svg."""
    for source in dict.fromkeys(row["data"] for row in rows):
        _draw([row for row in rows if row["data"] == source and "probe" in row], source, out / f"study-{source}")


def _draw(rows: list[Row], source: str, path: Path) -> None:
    trained = [row for row in rows if "family" in row]
    factors = [f for f in dict.fromkeys(row["factor"] for row in trained) if f != "default"]
    lines = math.ceil(len(factors) / COLUMNS)
    controls = [(name[0], 100 * mean(r["probe"] for r in same)) for name, same in _controls(rows).items()]
    seeds = len({row["seed"] for row in trained})
    with styled(path, 16, 3.1 * lines + 1.6) as figure:
        top = 1 - 1.35 / (3.1 * lines + 1.6)
        heading(
            figure,
            f"One setting at a time, on {source}",
            f"Linear probe, % of {trained[0]['scored_on']:,} held-out training images; seeds: {seeds}. "
            "Hollow marks are the defaults, grey lines the controls.",
        )
        grid = figure.add_gridspec(
            lines, COLUMNS, left=0.05, right=0.99, top=top, bottom=0.22 / lines, wspace=0.22, hspace=0.55
        )
        first: Axes | None = None
        for number, factor in enumerate(factors):
            axes = figure.add_subplot(grid[number // COLUMNS, number % COLUMNS], sharey=first)
            first = first or axes
            _panel(axes, trained, factor)
            reference_lines(axes, controls)
            axes.set_title(factor)
            axes.grid(axis="y", alpha=0.25)
        assert first is not None
        handles: dict[str, Any] = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        figure.legend(handles.values(), handles, loc="upper right", bbox_to_anchor=(0.995, 1.0), ncols=len(handles))


def _controls(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    return tables.groups([row for row in rows if "family" not in row], "method")


def _panel(axes: Axes, trained: Sequence[Row], factor: str) -> None:
    """Values in the order of size, where they have one, at equal distances; the default among them."""
    points: dict[str, dict[Any, list[float]]] = {}
    usual: dict[str, Any] = {}
    for row in trained:
        if row["factor"] == "default" and any(r["factor"] == factor and r["family"] == row["family"] for r in trained):
            value = row["config"].get(DEFAULTS.get(factor, ""), "default")
            usual[row["family"]] = value
        elif row["factor"] == factor:
            value = row["value"]
        else:
            continue
        points.setdefault(row["family"], {}).setdefault(value, []).append(100 * row["probe"])
    values = dict.fromkeys(value for found in points.values() for value in found)  # in the order they were declared
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    order = sorted(values) if numbers else sorted(values, key=lambda v: v not in usual.values())
    place = {value: x for x, value in enumerate(order)}
    for number, (family, found) in enumerate(points.items()):
        at = sorted(found, key=lambda value: place[value])
        colour, mark = COLOURS.get(family, "black"), MARKS.get(family, "o")
        shift = 0.08 * (number - (len(points) - 1) / 2)  # equal values stay visible
        x, y = [place[v] + shift for v in at], [mean(found[v]) for v in at]
        axes.plot(x, y, color=colour, marker=mark, markersize=6, linestyle="-" if numbers else "none", label=family)
        if usual.get(family) in at:
            here = at.index(usual[family])
            axes.plot(x[here], y[here], marker=mark, markersize=10, color=colour, markerfacecolor="white", zorder=3)
    axes.set_xticks(range(len(order)), [f"{v:g}" if numbers else str(v) for v in order])
    axes.set_xlim(-0.4, len(order) - 0.6)
    if len(order) > 6:
        axes.tick_params(axis="x", labelsize=8, rotation=60)
