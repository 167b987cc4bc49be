"""Picture of the groups: the spectrum of each group's features, with and without group-fair terms."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from kvicreg.reproduction.drawing import BLUE, GREY, ORANGE, heading, styled

__all__ = ["draw"]


def draw(results: dict[str, Any], path: Path) -> None:
    """A panel for each kind of minority and each group, a line for each variant: the mean over the seeds."""
    rows = results["rows"]
    kinds, variants = (list(dict.fromkeys(row[key] for row in rows)) for key in ("kind", "variant"))
    panels = [(kind, group) for kind in kinds for group in ("minority", "majority")]
    with styled(path, 1 + 3.7 * len(panels), 4.6) as figure:
        heading(
            figure,
            "Spectra of the groups' test features",
            "Eigenvalues of a group's covariance over the first, mean over seeds: higher means more directions in use.",
        )
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        figure.subplots_adjust(left=0.9 / figure.get_size_inches()[0], right=0.99, top=0.74, bottom=0.14, wspace=0.1)
        for panel, (kind, group) in zip(axes, panels, strict=True):
            for variant, colour, dash in zip(variants, (GREY, BLUE, ORANGE), ("-", "-", "--"), strict=False):
                same = [row for row in rows if (row["kind"], row["variant"]) == (kind, variant)]
                spectra = [row["groups"][group]["eigenvalues"] for row in same]
                curve = [mean(values) for values in zip(*([v / s[0] for v in s] for s in spectra), strict=True)]
                panel.plot(range(1, len(curve) + 1), curve, color=colour, linestyle=dash, label=variant)
            panel.set(title=f"{group} by {kind}", xlabel="direction", xscale="log", yscale="log")
            panel.grid(alpha=0.25)
        axes[0].set_ylabel("eigenvalue over the first")
        axes[0].legend(loc="lower left")
