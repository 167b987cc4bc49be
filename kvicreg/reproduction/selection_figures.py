"""Picture of the selection study: what the criterion says of each candidate, beside what labels say."""

from __future__ import annotations

from pathlib import Path

from kvicreg.reproduction.drawing import BLUE, GREY, ORANGE, RED, heading, styled
from kvicreg.reproduction.selection_tables import Results, best_criterion, correlations, quality, selected, studies

__all__ = ["draw"]


def draw(results: Results, path: Path) -> None:
    """A panel for each data set, a dot for each run; what is chosen without labels is ringed."""
    criterion = best_criterion(results)
    worth = correlations(results)[criterion]
    with styled(path, 1 + 5.2 * len(results), 5.4) as figure:
        heading(
            figure,
            f"Choosing without labels: agreement of {criterion} with the probe",
            "Each dot is a candidate at the end of its short training. No label had a part in the horizontal axis.",
        )
        panels = figure.subplots(1, len(results), squeeze=False)[0]
        figure.subplots_adjust(left=0.9 / figure.get_size_inches()[0], right=0.99, top=0.76, bottom=0.22, wspace=0.22)
        for axes, (data, result) in zip(panels, results.items(), strict=True):
            last, known = str(result["steps"][-1]), quality(result)
            best = max(known, key=lambda name: known[name])
            for study in studies(result):
                at = {row["candidate"]: (row["criteria"][last][criterion], 100 * row["probe"]) for row in study}
                axes.scatter(*zip(*at.values(), strict=True), color=GREY, s=26, zorder=2)
                axes.scatter(*at["rbf"], color=BLUE, s=60, zorder=3, label="rbf")
                axes.scatter(*at[best], color=ORANGE, s=60, zorder=3, label=f"best: {best}")
                chosen = selected(study, criterion, result["steps"])
                axes.plot(*at[chosen], "o", markersize=14, fillstyle="none", color=RED, label=f"chosen: {chosen}")
            axes.set(title=f"{data}: rank correlation {worth[data]:+.2f}", xlabel=criterion)
            axes.grid(alpha=0.25)
            once = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 3, "columnspacing": 1}
            axes.legend(once.values(), once.keys(), fontsize=9, handletextpad=0.2, **below)
        panels[0].set_ylabel("linear probe, %")
