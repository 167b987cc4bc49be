"""Pictures of what `theory` measured; every title says what was found, with the numbers that were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator, PercentFormatter, ScalarFormatter

from kvicreg.reproduction.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, STYLE, heading, save
from kvicreg.reproduction.theory import BATCH_SIZES

__all__ = ["collapse", "nonlinear_variance", "stability"]

KERNELS = {"Euclidean (linear kernel)": ORANGE, "RBF": BLUE, "Laplacian": GREEN, "rational quadratic": PURPLE}


def nonlinear_variance(measured: dict[str, Any], path: Path) -> None:
    """Theorem 2: circles and Swiss roll, through Euclidean and through RKHS components."""
    numbers = measured["numbers"]
    accuracy, r2 = numbers["circles"]["accuracy"], numbers["swiss_roll"]["r2_of_position_along_it"]
    two, ten = numbers["components"].index(2), numbers["components"].index(10)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(15, 8.2))
        heading(
            figure,
            "Leading RKHS components show structure that no Euclidean component shows",
            "Top: which of two circles a point is on. Bottom: how far along a Swiss roll it is. "
            "Linear models on the components, scored on points they were not fitted to.",
        )
        grid = figure.add_gridspec(2, 4, left=0.045, right=0.985, top=0.86, bottom=0.075, wspace=0.3, hspace=0.38)
        colours = np.where(measured["inner"] == 1, BLUE, ORANGE)

        axes = figure.add_subplot(grid[0, 0], box_aspect=1, title="two circles")
        axes.scatter(measured["points"][:, 0], measured["points"][:, 1], c=colours, s=8)
        for column, name in enumerate(["Euclidean (linear kernel)", "RBF"], 1):
            axes = figure.add_subplot(grid[0, column])
            scores = measured["circle_scores"][name]
            axes.scatter(scores[:, 0], scores[:, 1], c=colours, s=8)
            axes.set(xlabel="first component", ylabel="second component", box_aspect=1)
            axes.set_title(f"{name.split(' (')[0]}: {accuracy[name][two]:.0%} told apart")
        axes = figure.add_subplot(grid[0, 3], title="accuracy, by components", box_aspect=1)
        _by_components(axes, numbers["components"], accuracy)
        axes.legend(loc="center right", bbox_to_anchor=(1.03, 0.66))
        axes.set_ylim(0.4, 1.03)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))

        roll = figure.add_subplot(grid[1, 0], projection="3d", title="Swiss roll")
        roll.scatter(*measured["roll"].T, c=measured["along"], cmap="cividis", s=6)
        roll.view_init(12, -72)
        roll.set(xticks=[], yticks=[], zticks=[])
        roll.set_box_aspect((1, 1, 1), zoom=1.3)
        along = measured["along"][1::2]
        for column, name in enumerate(["Euclidean (linear kernel)", "RBF"], 1):
            axes = figure.add_subplot(grid[1, column])
            axes.plot([along.min(), along.max()], [along.min(), along.max()], color=GREY, linewidth=1)
            axes.scatter(along, measured["predicted"][name], c=along, cmap="cividis", s=8)
            axes.set(xlabel="position along the roll", ylabel="position read off")
            axes.set(ylim=(along.min() - 2, along.max() + 2), box_aspect=1)
            which = "all 3" if column == 1 else "first 10"
            axes.set_title(f"{name.split(' (')[0]}, {which}: R² = {r2[name][ten]:.2f}")
        axes = figure.add_subplot(grid[1, 3], title="R², by components", box_aspect=1)
        _by_components(axes, numbers["components"], r2)
        axes.set_ylim(-0.05, 1.03)
        save(figure, path)


def _by_components(axes: Axes, components: list[int], curves: dict[str, list[float]]) -> None:
    for name, values in curves.items():
        axes.plot(components, values, marker="o", markersize=4, color=KERNELS[name], label=name)
    axes.set_xlabel("leading components used")
    axes.grid(axis="y", alpha=0.25)


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def stability(measured: dict[str, Any], path: Path) -> None:
    """Theorem 3: the error of K^/b against the exact population operator, over the batch size."""
    slopes = [value["operator"] for value in measured["numbers"]["slope"].values()]
    with plt.rc_context(STYLE):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 5.6))
        figure.subplots_adjust(left=0.055, right=0.985, top=0.8, bottom=0.125, wspace=0.24)
        heading(
            figure,
            f"The operator settles as 1/√b: slopes of {_signed(max(slopes))} to {_signed(min(slopes))} on log axes",
            "Points uniform on a circle, where the population operator is known exactly. "
            f"Mean and middle 80 % of {measured['numbers']['draws']} batches.",
        )
        for axes, kind, title in (
            (left, "operator", "error of the operator, ‖K̂/b − C‖"),
            (middle, "eigenvalue", "largest error of an eigenvalue"),
        ):
            axes.set_title(title)
            for name, errors in measured["errors"].items():
                values = errors[kind]
                low, high = np.quantile(values, [0.1, 0.9], axis=1)
                slope = measured["numbers"]["slope"][name][kind]
                axes.fill_between(BATCH_SIZES, low, high, color=KERNELS[name], alpha=0.15, linewidth=0)
                axes.plot(
                    BATCH_SIZES, values.mean(1), "o-", ms=5, color=KERNELS[name], label=f"{name}: {_signed(slope)}"
                )
            guide = values.mean(1).max() * 0.42 * np.sqrt(BATCH_SIZES[0] / np.array(BATCH_SIZES))
            axes.plot(BATCH_SIZES, guide, "--", color=GREY, linewidth=1.5, label="1/√b: −0.50")
            axes.set(xscale="log", yscale="log", xlabel="batch size b")
            axes.set_xticks(BATCH_SIZES)
            axes.xaxis.set_major_formatter(ScalarFormatter())
            axes.xaxis.set_minor_locator(NullLocator())
            axes.legend(title="slope", alignment="left")
        name = "RBF"
        right.set_title("leading eigenvalues of K̂/b, RBF")
        for pair, colour in zip(range(3), (BLUE, GREEN, PURPLE), strict=True):
            right.axhline(measured["population"][name][2 * pair], color=colour, linewidth=1, linestyle="--")
            for i in (2 * pair, 2 * pair + 1):
                values = measured["spectra"][name][:, :, i]
                low, high = np.quantile(values, [0.1, 0.9], axis=1)
                right.fill_between(BATCH_SIZES, low, high, color=colour, alpha=0.18, linewidth=0)
                right.plot(BATCH_SIZES, values.mean(1), "o-", ms=4, color=colour)
        right.plot([], [], color=GREY, linestyle="--", linewidth=1, label="population (each value twice)")
        right.set(xscale="log", xlabel="batch size b")
        right.set_xticks(BATCH_SIZES)
        right.xaxis.set_major_formatter(ScalarFormatter())
        right.xaxis.set_minor_locator(NullLocator())
        right.legend(loc="upper right")
        save(figure, path)


def collapse(measured: dict[str, Any], path: Path) -> None:
    """Proposition 1 and its remark: the spectrum of collapsed embeddings under descent."""
    numbers = measured["numbers"]
    colours = {
        "VICReg, variance term": (ORANGE, "-"),
        "VICReg, all terms": (ORANGE, "--"),
        "kernel variance term, linear": (GREY, "-"),
        "kernel variance term, RBF": (BLUE, "-"),
        "kernel variance term, Laplacian": (GREEN, "-"),
    }
    ends = numbers["effective_rank_at_the_end"]
    with plt.rc_context(STYLE):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 5.6))
        figure.subplots_adjust(left=0.05, right=0.985, top=0.74, bottom=0.125, wspace=0.24)
        heading(
            figure,
            "A variance term on the spectrum leaves collapse by itself; one on the coordinates stays on a line",
            f"{numbers['samples']} free embeddings of width {numbers['width']}, collapsed to a line plus noise of "
            "0.001, under descent (Adam). VICReg leaves the line "
            "with its covariance term (dashed), the spectrum without one.",
        )
        left.set_title(
            f"effective rank: {ends['VICReg, variance term']:.1f} against {ends['kernel variance term, RBF']:.1f} "
            f"of {numbers['width']}"
        )
        for name, history in measured["ranks"].items():
            colour, line = colours[name]
            left.plot(history, color=colour, linestyle=line, label=name)
        left.axhline(numbers["width"], color=GREY, linewidth=1, linestyle=":")
        left.set(xlabel="step", ylim=(0, numbers["width"] + 1))
        figure.legend(loc="upper left", bbox_to_anchor=(0.003, 0.885), ncols=5, fontsize=11)
        middle.set_title("share of the variance by direction, at the end")
        directions = np.arange(1, numbers["width"] + 1)
        middle.plot(directions, measured["first"], color="black", linestyle=":")
        middle.annotate("at the start", (directions[8], measured["first"][8]), (0, 6), textcoords="offset points")
        for name, shares in measured["finals"].items():
            colour, line = colours[name]
            middle.plot(directions, shares, color=colour, linestyle=line, marker="o", markersize=4)
        middle.set(xlabel="principal direction", yscale="log")
        middle.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
        middle.set_ylim(1e-6, 1.5)
        middle.set_xticks(directions[::3])
        right.set_title("spectrum of K̂/b under the RBF term")
        shades = plt.get_cmap("cividis")(np.linspace(0.95, 0.0, len(measured["spectra"])))
        for (step, values), shade in zip(measured["spectra"].items(), shades, strict=True):
            right.plot(np.arange(1, len(values)), values[:-1], color=shade, label=f"step {step}")
        right.set(xlabel="eigenvalue (the last of the 64 is always 0)", yscale="log")
        right.set_ylim(1e-6, 1)
        right.legend(loc="upper right", ncols=2)
        save(figure, path)
