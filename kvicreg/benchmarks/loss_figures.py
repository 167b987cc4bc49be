"""The paper's two scaling figures, latency and memory, from the rows of `kvicreg bench loss`.

Beside our losses stands the fastest VICReg of others at each size.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvicreg.benchmarks.loss import Row

PEER = "fastest VICReg"
COLORS = {  # Okabe-Ito: told apart by colour-blind readers
    "linear": "#0072B2",
    "polynomial": "#CC79A7",
    "rbf": "#D55E00",
    "laplacian": "#009E73",
    "laplacian-l1": "#8B4513",
    "rq": "#E69F00",
    "vicreg": "#56B4E9",
    "rbf-per-view": "#000000",
    PEER: "#666666",
}
OTHER = "#999999"
"""Of losses that have no color of their own."""
DASHES = ["-", "--", ":", "-.", (0, (1, 3))]
MARKS = {"rff": "s", "nystrom": "^"}
BELOW: dict[str, Any] = {
    "fontsize": 8, "frameon": False, "ncols": 3, "loc": "upper center", "bbox_to_anchor": (0.5, -0.13)
}  # fmt: skip
"""Where a legend stands."""


def draw(rows: Sequence[Row], out: Path) -> None:
    """Write latency.png, latency.svg, memory.png and memory.svg; losses without a colour only where no other is."""
    rows = [row for row in rows if row.loss in COLORS] or rows
    figures = [
        ("latency", "milliseconds", "peer_milliseconds", "forward + backward, ms"),
        ("memory", "peak_mib", "peer_peak_mib", "peak memory, MiB"),
    ]
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, ours, theirs, label in figures:
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 6.2), layout="constrained", sharey=True)
        _over_width(left, rows, ours, theirs)
        _over_batch(right, rows, ours, theirs)
        left.set(xlabel="embedding width p", ylabel=label, title=f"{name} over embedding width, exact")
        right.set(xlabel="batch size b", title=f"{name} over batch size, p = 1024")
        for axes in (left, right):
            if not any(len(line.get_xdata()) for line in axes.lines):  # nothing was measured that belongs here
                continue
            axes.set(xscale="log", yscale="log")
            sizes = sorted({row.width for row in rows if row.approximation == "exact"})
            if axes is right:
                sizes = sorted({row.batch for row in rows if row.width == 1024})
            axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
            axes.grid(True, which="major", alpha=0.3)
        for kind in ("png", "svg"):
            figure.savefig(out / f"{name}.{kind}", dpi=150)
        plt.close(figure)


def _over_width(axes: Any, rows: Sequence[Row], ours: str, theirs: str) -> None:
    from matplotlib.lines import Line2D

    exact = [row for row in rows if row.approximation == "exact" and row.views == 2]
    batches = sorted({row.batch for row in exact if len({r.width for r in exact if r.batch == row.batch}) > 1})
    shown = []
    for dash, batch in zip(DASHES, batches, strict=False):
        of_batch = sorted((row for row in exact if row.batch == batch), key=lambda row: row.width)
        for name in dict.fromkeys(row.loss for row in of_batch):
            points = [(row.width, getattr(row, ours)) for row in of_batch if row.loss == name]
            axes.plot(*zip(*points, strict=True), linestyle=dash, marker="o", ms=3, color=COLORS.get(name, OTHER))
            shown.append(name)
        peer = sorted({(row.width, getattr(row, theirs)) for row in of_batch})
        axes.plot(*zip(*peer, strict=True), linestyle=dash, marker="x", ms=4, color=COLORS[PEER])
    names = [*dict.fromkeys(shown), PEER]
    keys = [Line2D([], [], color=COLORS.get(name, OTHER), label=name) for name in names]
    keys += [
        Line2D([], [], color="black", linestyle=d, label=f"b = {b}") for d, b in zip(DASHES, batches, strict=False)
    ]
    axes.legend(handles=keys, **BELOW)


def _over_batch(axes: Any, rows: Sequence[Row], ours: str, theirs: str) -> None:
    at_width = sorted((row for row in rows if row.width == 1024 and row.views == 2), key=lambda row: row.batch)
    for name, approximation in dict.fromkeys((row.loss, row.approximation) for row in at_width):
        points = [(r.batch, getattr(r, ours)) for r in at_width if (r.loss, r.approximation) == (name, approximation)]
        exact = approximation == "exact"
        axes.plot(
            *zip(*points, strict=True), color=COLORS.get(name, OTHER), linestyle="-" if exact else "--", ms=4,
            marker="o" if exact else MARKS[approximation.partition(":")[0]],
            label=f"{name}, exact" if exact else f"{name}, {approximation.replace(':', ' ')}",
        )  # fmt: skip
    peer = dict(sorted((row.batch, getattr(row, theirs)) for row in at_width))
    axes.plot(list(peer), list(peer.values()), color=COLORS[PEER], marker="x", ms=4, label=PEER)
    axes.legend(**BELOW)
