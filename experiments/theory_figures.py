"""Pictures of what `theory` measured; every title says what was found, with the numbers that were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter, ScalarFormatter

from experiments.common.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, figure_in, panels

KERNELS = {"Euclidean (linear kernel)": ORANGE, "RBF": BLUE, "Laplacian": GREEN, "rational quadratic": PURPLE}
OBJECTIVES = {
    "VICReg, variance term": (ORANGE, "-"),
    "VICReg, all terms": (ORANGE, "--"),
    "kernel variance term, linear": (GREY, "-"),
    "kernel variance term, RBF": (BLUE, "-"),
    "kernel variance term, Laplacian": (GREEN, "-"),
}


def draw_nonlinear_variance(measured: dict[str, Any], path: Path) -> None:
    """Circles and Swiss roll, through Euclidean and through RKHS components."""
    numbers = measured["numbers"]
    accuracy, r2 = numbers["circles"]["accuracy"], numbers["swiss_roll"]["r2_of_position_along_it"]
    counts = numbers["components"]
    two, ten = counts.index(2), counts.index(10)
    title = "Leading RKHS components show structure that no Euclidean component shows"
    detail = (
        "Top: which of two circles a point is on. Bottom: how far along a Swiss roll it is. "
        "Linear models on the components, scored on points they were not fitted to."
    )
    with figure_in(path, 15, 8.2, title, detail) as figure:
        grid = figure.add_gridspec(2, 4, left=0.045, right=0.985, top=0.86, bottom=0.075, wspace=0.3, hspace=0.38)
        colours = np.where(measured["inner"] == 1, BLUE, ORANGE)
        axes: Any = figure.add_subplot(grid[0, 0], box_aspect=1, title="two circles")
        axes.scatter(*measured["points"].T, c=colours, s=8)
        roll = figure.add_subplot(grid[1, 0], projection="3d", title="Swiss roll")
        roll.scatter(*measured["roll"].T, c=measured["along"], cmap="cividis", s=6)
        roll.view_init(12, -72)
        roll.set(xticks=[], yticks=[], zticks=[])
        roll.set_box_aspect((1, 1, 1), zoom=1.3)
        along = measured["along"][1::2]
        ends = [along.min(), along.max()]
        for column, (name, which) in enumerate({"Euclidean (linear kernel)": "all 3", "RBF": "first 10"}.items(), 1):
            axes = figure.add_subplot(
                grid[0, column], box_aspect=1, xlabel="first component", ylabel="second component"
            )
            axes.scatter(*measured["circle_scores"][name][:, :2].T, c=colours, s=8)
            axes.set_title(f"{name.split(' (')[0]}: {accuracy[name][two]:.0%} told apart")
            axes = figure.add_subplot(grid[1, column], box_aspect=1, ylim=(ends[0] - 2, ends[1] + 2))
            axes.plot(ends, ends, color=GREY, linewidth=1)
            axes.scatter(along, measured["predicted"][name], c=along, cmap="cividis", s=8)
            axes.set(xlabel="position along the roll", ylabel="position read off")
            axes.set_title(f"{name.split(' (')[0]}, {which}: R² = {r2[name][ten]:.2f}")
        for line, (title, curves, low) in enumerate([("accuracy", accuracy, 0.4), ("R²", r2, -0.05)]):
            axes = figure.add_subplot(grid[line, 3], title=f"{title}, by components", box_aspect=1, ylim=(low, 1.03))
            _by_components(axes, counts, curves)
            if title == "accuracy":
                axes.legend(loc="center right", bbox_to_anchor=(1.03, 0.66))
                axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _by_components(axes: Axes, counts: list[int], curves: dict[str, list[float]]) -> None:
    for name, values in curves.items():
        axes.plot(counts, values, marker="o", markersize=4, color=KERNELS[name], label=name)
    axes.set_xlabel("leading components used")
    axes.grid(axis="y", alpha=0.25)


def draw_stability(measured: dict[str, Any], path: Path) -> None:
    """The error of K^/b against the exact population operator, over the batch size."""
    sizes = measured["numbers"]["batch_sizes"]
    slopes = {name: kinds["operator"] for name, kinds in measured["numbers"]["slope"].items()}
    steepest, flattest = _signed(min(slopes.values())), _signed(max(slopes.values()))
    title = f"The operator settles as 1/√b: slopes of {flattest} to {steepest} on log axes"
    detail = (
        "Points uniform on a circle, where the population operator is known exactly. "
        f"Mean and middle 80 % of {measured['numbers']['draws']} batches."
    )
    with panels(path, (15, 5.6), title, detail, 3, (0.055, 0.985, 0.8, 0.125, 0.24), sharey=False) as every:
        left, middle, right = every
        for axes, kind in ((left, "operator"), (middle, "eigenvalue")):
            for name, errors in measured["errors"].items():
                label = f"{name}: {_signed(measured['numbers']['slope'][name][kind])}"
                _mean_and_middle(axes, sizes, errors[kind], KERNELS[name], 0.15, label=label, ms=5)
            guide = errors[kind].mean(1).max() * 0.42 * np.sqrt(sizes[0] / np.array(sizes))
            axes.plot(sizes, guide, "--", color=GREY, linewidth=1.5, label="1/√b: −0.50")
            axes.set_yscale("log")
            axes.legend(title="slope", alignment="left")
        left.set_title("error of the operator, ‖K̂/b − C‖")
        middle.set_title("largest error of an eigenvalue")
        right.set_title("leading eigenvalues of K̂/b, RBF")
        for pair, colour in zip(range(3), (BLUE, GREEN, PURPLE), strict=True):
            right.axhline(measured["population"]["RBF"][2 * pair], color=colour, linewidth=1, linestyle="--")
            for i in (2 * pair, 2 * pair + 1):
                _mean_and_middle(right, sizes, measured["spectra"]["RBF"][:, :, i], colour, 0.18, ms=4)
        right.plot([], [], color=GREY, linestyle="--", linewidth=1, label="population (each value twice)")
        right.legend(loc="upper right")
        for axes in (left, middle, right):
            axes.set(xscale="log", xlabel="batch size b")
            axes.set_xticks(sizes)
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.xaxis.set_minor_locator(NullLocator())


def _mean_and_middle(axes: Axes, sizes: list[int], values: np.ndarray, colour: str, alpha: float, **style: Any) -> None:
    low, high = np.quantile(values, [0.1, 0.9], axis=1)
    axes.fill_between(sizes, low, high, color=colour, alpha=alpha, linewidth=0)
    axes.plot(sizes, values.mean(1), "o-", color=colour, **style)


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def draw_collapse(measured: dict[str, Any], path: Path) -> None:
    """The spectrum of collapsed embeddings under descent."""
    numbers = measured["numbers"]
    ends, width = numbers["effective_rank_at_the_end"], numbers["width"]
    title = "A variance term on the spectrum leaves collapse by itself; one on the coordinates stays on a line"
    detail = (
        f"{numbers['samples']} free embeddings of width {width}, collapsed to a line plus noise of 0.001, under "
        "descent (Adam). VICReg leaves the line with its covariance term (dashed), the spectrum without one."
    )
    with panels(path, (15, 5.6), title, detail, 3, (0.05, 0.985, 0.74, 0.125, 0.24), sharey=False) as every:
        left, middle, right = every
        rank, coordinates = ends["kernel variance term, RBF"], ends["VICReg, variance term"]
        left.set_title(f"effective rank: {coordinates:.1f} against {rank:.1f} of {width}")
        middle.set_title("share of the variance by direction, at the end")
        directions = np.arange(1, width + 1)
        middle.plot(directions, measured["first"], color="black", linestyle=":")
        middle.annotate("at the start", (directions[8], measured["first"][8]), (0, 6), textcoords="offset points")
        for name, (colour, line) in OBJECTIVES.items():
            left.plot(measured["ranks"][name], color=colour, linestyle=line, label=name)
            middle.plot(directions, measured["finals"][name], color=colour, linestyle=line, marker="o", markersize=4)
        left.axhline(width, color=GREY, linewidth=1, linestyle=":")
        left.set(xlabel="step", ylim=(0, width + 1))
        plt.gcf().legend(loc="upper left", bbox_to_anchor=(0.003, 0.885), ncols=5, fontsize=11)
        middle.set(xlabel="principal direction", yscale="log", ylim=(1e-6, 1.5), xticks=directions[::3])
        middle.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
        right.set_title("spectrum of K̂/b under the RBF term")
        shades = plt.get_cmap("cividis")(np.linspace(0.95, 0.0, len(measured["spectra"])))
        for (step, values), shade in zip(measured["spectra"].items(), shades, strict=True):
            right.plot(np.arange(1, len(values)), values[:-1], color=shade, label=f"step {step}")
        right.set(xlabel="eigenvalue (the last of the 64 is always 0)", yscale="log", ylim=(1e-6, 1))
        right.legend(loc="upper right", ncols=2)
