"""Pictures of what `theory` measured; every title says what was found, with the numbers that were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter, ScalarFormatter

from experiments.common.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, legend, panels

KERNELS = {"Euclidean (linear kernel)": ORANGE, "RBF": BLUE, "Laplacian": GREEN, "rational quadratic": PURPLE}
DESCENTS = [(ORANGE, "-"), (ORANGE, "--"), (GREY, "-"), (BLUE, "-"), (GREEN, "-")]
"""Colour and line of each objective."""


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
    with panels(path, (15, 9.2), title, detail, 4, 2, subplot_kw={"box_aspect": 1}) as (top, bottom):
        colours = np.where(measured["inner"] == 1, BLUE, ORANGE)
        top[0].scatter(*measured["points"].T, c=colours, s=8)
        top[0].set_title("two circles")
        _draw_roll(bottom[0], measured)
        along = measured["along"][1::2]
        ends = (along.min(), along.max())
        shown = {"Euclidean (linear kernel)": "all 3", "RBF": "first 10"}
        for upper, lower, (name, which) in zip(top[1:3], bottom[1:3], shown.items(), strict=True):
            upper.scatter(*measured["circle_scores"][name][:, :2].T, c=colours, s=8)
            upper.set(xlabel="first component", ylabel="second component")
            upper.set_title(f"{name.split(' (')[0]}: {accuracy[name][two]:.0%} told apart")
            lower.plot(ends, ends, color=GREY, linewidth=1)
            lower.scatter(along, measured["predicted"][name], c=along, cmap="cividis", s=8)
            lower.set(xlabel="position along the roll", ylabel="position read off", ylim=(ends[0] - 2, ends[1] + 2))
            lower.set_title(f"{name.split(' (')[0]}, {which}: R² = {r2[name][ten]:.2f}")
        for axes, title, curves, low in ((top[3], "accuracy", accuracy, 0.4), (bottom[3], "R²", r2, -0.05)):
            for name, values in curves.items():
                axes.plot(counts, values, marker="o", markersize=4, color=KERNELS[name], label=name)
            axes.set(title=f"{title}, by components", ylim=(low, 1.03), xlabel="leading components used")
            axes.grid(axis="y")
        top[3].yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        legend([top[3]])


def _draw_roll(axes: Axes, measured: dict[str, Any]) -> None:
    axes.set_axis_off()
    roll: Any = axes.figure.add_subplot(axes.get_subplotspec(), projection="3d", title="Swiss roll")
    roll.scatter(*measured["roll"].T, c=measured["along"], cmap="cividis", s=6)
    roll.view_init(12, -72)
    roll.set(xticks=[], yticks=[], zticks=[])
    roll.set_box_aspect((1, 1, 1), zoom=1.2)


def draw_stability(measured: dict[str, Any], path: Path) -> None:
    """The error of K^/b against the exact population operator, over the batch size."""
    numbers = measured["numbers"]
    sizes, slopes = numbers["batch_sizes"], [kinds["operator"] for kinds in numbers["slope"].values()]
    title = f"The operator settles as 1/√b: slopes of {_signed(max(slopes))} to {_signed(min(slopes))} on log axes"
    detail = (
        "Points uniform on a circle, where the population operator is known exactly. "
        f"Mean and middle 80 % of {numbers['draws']} batches."
    )
    with panels(path, (15, 5.6), title, detail, 3) as ((left, middle, right),):
        for axes, kind in ((left, "operator"), (middle, "eigenvalue")):
            for name, errors in measured["errors"].items():
                label = f"{name}: {_signed(numbers['slope'][name][kind])}"
                _mean_and_middle(axes, sizes, errors[kind], KERNELS[name], label=label, ms=5)
            guide = errors[kind].mean(1).max() * 0.42 * np.sqrt(sizes[0] / np.array(sizes))
            axes.plot(sizes, guide, "--", color=GREY, linewidth=1.5, label="1/√b: −0.50")
            axes.set_yscale("log")
            axes.legend(title="slope", alignment="left")
        left.set_title("error of the operator, ‖K̂/b − C‖")
        middle.set_title("largest error of an eigenvalue")
        right.set_title("leading eigenvalues of K̂/b, RBF")
        for i, colour in enumerate((BLUE, BLUE, GREEN, GREEN, PURPLE, PURPLE)):
            right.axhline(measured["population"]["RBF"][i], color=colour, linewidth=1, linestyle="--")
            _mean_and_middle(right, sizes, measured["spectra"]["RBF"][:, :, i], colour, ms=4)
        right.plot([], [], color=GREY, linestyle="--", linewidth=1, label="population (each value twice)")
        right.legend(loc="upper right")
        for axes in (left, middle, right):
            axes.set(xscale="log", xlabel="batch size b")
            axes.set_xticks(sizes)
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.xaxis.set_minor_locator(NullLocator())


def _mean_and_middle(axes: Axes, sizes: list[int], values: np.ndarray, colour: str, **style: Any) -> None:
    low, high = np.quantile(values, [0.1, 0.9], axis=1)
    axes.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(sizes, values.mean(1), "o-", color=colour, **style)


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def draw_collapse(measured: dict[str, Any], path: Path) -> None:
    """The spectrum of collapsed embeddings under descent."""
    numbers = measured["numbers"]
    ends, width = numbers["effective_rank_at_the_end"], numbers["width"]
    rank, coordinates = ends["kernel variance term, RBF"], ends["VICReg, variance term"]
    title = "A variance term on the spectrum leaves collapse by itself; one on the coordinates stays on a line"
    detail = (
        f"{numbers['samples']} free embeddings of width {width}, collapsed to a line plus noise of 0.001, under "
        "descent (Adam). VICReg leaves the line with its covariance term (dashed), the spectrum without one."
    )
    with panels(path, (15, 5.6), title, detail, 3) as ((left, middle, right),):
        directions = np.arange(1, width + 1)
        middle.plot(directions, measured["first"], color="black", linestyle=":")
        middle.annotate("at the start", (directions[8], measured["first"][8]), (0, 6), textcoords="offset points")
        for (name, ranks), (colour, line) in zip(measured["ranks"].items(), DESCENTS, strict=True):
            left.plot(ranks, color=colour, linestyle=line, label=name)
            middle.plot(directions, measured["finals"][name], color=colour, linestyle=line, marker="o", markersize=4)
        left.axhline(width, color=GREY, linewidth=1, linestyle=":")
        left.set(xlabel="step", ylim=(0, width + 1))
        left.set_title(f"effective rank: {coordinates:.1f} against {rank:.1f} of {width}")
        middle.set(xlabel="principal direction", yscale="log", ylim=(1e-6, 1.5), xticks=directions[::3])
        middle.set_title("share of the variance by direction, at the end")
        middle.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
        shades = colormaps["cividis"](np.linspace(0.95, 0.0, len(measured["spectra"])))
        for (step, values), shade in zip(measured["spectra"].items(), shades, strict=True):
            right.plot(np.arange(1, len(values)), values[:-1], color=shade, label=f"step {step}")
        right.set(xlabel="eigenvalue (the last of the 64 is always 0)", yscale="log", ylim=(1e-6, 1))
        right.set_title("spectrum of K̂/b under the RBF term")
        right.legend(loc="upper right", ncols=2)
        legend([left])
