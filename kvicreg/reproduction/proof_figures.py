"""Pictures of the defaults' trial: a panel for each data set, and how batch size, width and images change it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from kvicreg.reproduction import tables
from kvicreg.reproduction.drawing import COLOURS, GREY, MARKS, heading, styled
from kvicreg.reproduction.tables import Row

__all__ = ["draw", "draw_grids"]

CONTROLS = ("raw pixels", "random encoder", "supervised")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Linear probe and k-NN of every contender, each seed a dot, the mean a bar of the interval's width."""
    named = [{**row, "name": tables.name_of(row)} for row in rows if "probe" in row]
    sources = list(dict.fromkeys(row["data"] for row in named))
    names = [n for n in dict.fromkeys(row["name"] for row in named) if n not in CONTROLS][::-1]
    with styled(path, 2 + 4.6 * len(sources), 1.9 + 0.5 * len(names)) as figure:
        heading(
            figure,
            "Kernel VICReg with one triple of weights, beside VICReg, at equal budget",
            "Linear probe on the test set, %. Dots: seeds; bars: mean and 95 % interval over images; lines: controls.",
        )
        height = figure.get_size_inches()[1]
        panels = figure.subplots(1, len(sources), sharey=True, squeeze=False)[0]
        figure.subplots_adjust(
            left=1.75 / figure.get_size_inches()[0],
            right=0.985,
            top=1 - 1.2 / height,
            bottom=0.75 / height,
            wspace=0.08,
        )
        for axes, source in zip(panels, sources, strict=True):
            here = [row for row in named if row["data"] == source]
            for y, name in enumerate(names):
                same = [row for row in here if row["name"] == name]
                if not same:
                    continue
                colour = COLOURS.get(name.split(",")[0], "black")
                low, high = (100 * mean(r[f"probe_{end}"] for r in same) for end in ("low", "high"))
                centre = 100 * mean(r["probe"] for r in same)
                axes.plot([low, high], [y, y], color=colour, linewidth=7, alpha=0.3, solid_capstyle="butt")
                axes.plot([100 * r["probe"] for r in same], [y] * len(same), "o", color=colour, markersize=4)
                axes.plot([centre], [y], "|", color=colour, markersize=15, markeredgewidth=2.5)
            for dash, control in zip((":", "--", "-."), CONTROLS, strict=True):
                same = [row for row in here if row["name"] == control]
                if same:
                    axes.axvline(
                        100 * mean(r["probe"] for r in same), color=GREY, linestyle=dash, lw=1.3, label=control
                    )
            axes.set_yticks(range(len(names)), names)
            axes.set(title=source, xlabel="linear probe, %")
            axes.grid(axis="x", alpha=0.25)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="upper right", bbox_to_anchor=(0.99, 1 - 0.4 / height), ncols=3)


def draw_grids(rows: Sequence[Row], path: Path) -> None:
    """A panel for each grid, a line for each contender; controls in words."""
    varied = [row for row in rows if row.get("grid") and "probe" in row]
    grids = list(dict.fromkeys(row["grid"] for row in varied))
    controls = [(name, 100 * mean(row["probe"] for row in rows if row["method"] == name)) for name in CONTROLS[:2]]
    with styled(path, 15, 5.6) as figure:
        heading(
            figure,
            f"The same weights at other batch sizes, projectors and numbers of images, on {varied[0]['data']}",
            f"Linear probe on the test set; seeds: {len({row['seed'] for row in varied})}. Fewer images are seen more "
            f"often, for as many steps. Controls: {', '.join(f'{name} {score:.1f} %' for name, score in controls)}.",
        )
        panels = figure.subplots(1, len(grids), sharey=True, squeeze=False)[0]
        figure.subplots_adjust(left=0.05, right=0.84, top=0.8, bottom=0.13, wspace=0.08)
        for axes, grid in zip(panels, grids, strict=True):
            here = [row for row in varied if row["grid"] == grid]
            values = sorted({row["value"] for row in here})
            for (name,), same in tables.groups(here, "name").items():
                points = tables.groups(sorted(same, key=lambda row: row["value"]), "value")
                x = [values.index(value) for (value,) in points]
                y = [100 * mean(row["probe"] for row in found) for found in points.values()]
                kind = name.split(",")[0]
                line = ":" if name.endswith("published") else "-"
                axes.plot(x, y, line, color=COLOURS.get(kind), marker=MARKS.get(kind, "o"), markersize=7, label=name)
            axes.set_xticks(range(len(values)), [f"{value:,}" for value in values])
            axes.set_title(grid)
            axes.grid(axis="y", alpha=0.25)
        panels[0].set_ylabel("linear probe, %")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="center right", bbox_to_anchor=(0.995, 0.5))
