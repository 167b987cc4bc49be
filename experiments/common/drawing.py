"""What figures have in common: colours everyone can tell apart, sizes, and files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
def figure_in(path: Path, width: float, height: float, title: str, detail: str) -> Iterator[Figure]:
    """A figure in the house style, written to path.png and path.svg when the block ends.

    Args:
        title: what the figure shows.
        detail: how it was measured.
    """
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(width, height))
        figure.suptitle(title, x=0.01, y=0.985, ha="left", fontsize=15, fontweight="bold")
        figure.text(0.01, 1 - 0.5 / height, detail, ha="left", va="top", fontsize=11, color=GREY)
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(f"{path}.png", dpi=150, metadata={"Software": None})
        figure.savefig(f"{path}.svg", metadata={"Date": None})
        plt.close(figure)


@contextmanager
def panels(
    path: Path,
    size: tuple[float, float],
    title: str,
    detail: str,
    columns: int,
    place: tuple[float, float, float, float, float],
    *,
    sharey: bool = True,
) -> Iterator[list[Any]]:
    """The panels of a figure with one row of them; `place`: left, right, top, bottom and the space between them."""
    with figure_in(path, *size, title, detail) as figure:
        axes = figure.subplots(1, columns, sharey=sharey, squeeze=False)[0]
        figure.subplots_adjust(**dict(zip(("left", "right", "top", "bottom", "wspace"), place, strict=True)))
        yield list(axes)


def legend(axes: Sequence[Axes], **place: Any) -> None:
    """One legend of several panels, each label once, in a line unless `place` says otherwise."""
    handles: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    axes[0].figure.legend(handles.values(), handles, **{"ncols": len(handles), **place})
