"""What the figures of the reproduction have in common: colours everyone can tell apart, sizes, and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["COLOURS", "STYLE", "heading", "reference_lines", "save", "styled"]

# Okabe and Ito's colours, told apart by everyone
GREY, ORANGE, BLUE, GREEN, PURPLE, RED, SKY = (
    "#5f5f5f", "#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9",
)  # fmt: skip
COLOURS = {
    "linear": ORANGE,
    "rbf": BLUE,
    "laplacian": GREEN,
    "rq": PURPLE,
    "polynomial": SKY,
    "rbf+linear": "#000000",
    "vicreg": RED,
    "vicreg, tuned": RED,
}
MARKS = {"linear": "s", "rbf": "o", "laplacian": "^", "rq": "D", "polynomial": "v", "rbf+linear": "P", "vicreg": "X"}
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 2,
    "svg.hashsalt": "kvicreg",
    "svg.fonttype": "none",
}


@contextmanager
def styled(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure in the house style, written to path.png and path.svg when the block ends."""
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(width, height))
        yield figure
        save(figure, path)


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(f"{path}.png", dpi=150, metadata={"Software": None})
    figure.savefig(f"{path}.svg", metadata={"Date": None})
    plt.close(figure)


def heading(figure: Figure, text: str, detail: str) -> None:
    """What the figure shows, and how it was measured."""
    figure.suptitle(text, x=0.01, y=0.985, ha="left", fontsize=15, fontweight="bold")
    inches = figure.get_size_inches()[1]
    figure.text(0.01, 1 - 0.5 / inches, detail, ha="left", va="top", fontsize=11, color=GREY)


def reference_lines(axes: Axes, values: Iterable[tuple[str, float]]) -> None:
    """Controls as labelled horizontal lines."""
    for dash, (name, value) in zip((":", "--", "-."), values, strict=False):
        axes.axhline(value, color=GREY, linewidth=1.2, linestyle=dash, label=name, zorder=1)
