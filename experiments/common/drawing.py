"""What figures have in common: colours everyone can tell apart, sizes, and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

# Okabe and Ito's colours, told apart by everyone
GREY, ORANGE, BLUE, GREEN, PURPLE, RED, SKY = (
    "#5f5f5f", "#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9",
)  # fmt: skip
LOOKS = {
    "linear": (ORANGE, "s"), "rbf": (BLUE, "o"), "laplacian": (GREEN, "^"), "rq": (PURPLE, "D"),
    "polynomial": (SKY, "v"), "rbf+linear": ("#000000", "P"), "vicreg": (RED, "X"),
    "simclr": (SKY, "<"), "barlow-twins": (GREY, ">"), "byol": ("#8c6d31", "h"), "supervised": ("#b5b5b5", "*"),
}  # fmt: skip
"""Colour and marker of each model."""
STYLE: dict[Any, Any] = {
    "font.size": 11, "axes.titlesize": 12, "axes.labelsize": 11, "axes.spines.top": False, "axes.spines.right": False,
    "axes.titlelocation": "left", "legend.frameon": False, "legend.fontsize": 10, "lines.linewidth": 2,
    "grid.alpha": 0.25, "svg.hashsalt": "kvicreg", "svg.fonttype": "none",
}  # fmt: skip


def look(name: str) -> dict[str, Any]:
    """How a model's line is drawn; what follows a comma in its name does not count."""
    return dict(zip(("color", "marker"), LOOKS.get(name.split(",")[0], ("black", "o")), strict=True))


@contextmanager
def panels(
    path: Path, size: tuple[float, float], title: str, detail: str, columns: int = 1, rows: int = 1, **more: Any
) -> Iterator[Any]:
    """The panels ``(rows, columns)`` of a figure that is written to path.png and path.svg when the block ends.

    Args:
        title: what the figure shows.
        detail: how it was measured.
        more: arguments of `subplots`.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **more)
        figure.get_layout_engine().set(rect=(0.005, 0.005, 0.99, 0.99 - 0.85 / size[1]), wspace=0.04, h_pad=0.1)
        figure.text(0.01, 1 - 0.1 / size[1], title, va="top", fontsize=15, fontweight="bold")
        figure.text(0.01, 1 - 0.5 / size[1], detail, va="top", color=GREY)
        yield axes
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(f"{path}.png", dpi=150, metadata={"Software": None})
        figure.savefig(f"{path}.svg", metadata={"Date": None})
        plt.close(figure)


def legend(axes: Iterable[Any], **place: Any) -> None:
    """One legend of several panels below them, each label once, in a line unless `place` says otherwise."""
    handles: dict[str, Any] = {}
    for one in axes:
        handles |= dict(zip(*one.get_legend_handles_labels()[::-1], strict=True))
    one.figure.legend(handles.values(), handles, **{"loc": "outside lower center", "ncols": len(handles), **place})
