"""The page's figures as PNG and SVG, for papers, in a folder of the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.report.read import RunRecord, explaining_damage, read_run
from kvicreg.storage import replacing

# Okabe and Ito's colours, the yellow last because it is faint on paper
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5B6068", "#F0E442"]
MARKS = "o^sD"


STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "kvicreg",
}


def write_figures(path: str | Path, folder: str | Path | None = None) -> list[Path]:
    """Draw every figure the run has data for; returns the files, PNG (300 dpi) and SVG of each."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("the figures need matplotlib: pip install 'kvicreg[eval]'") from error
    from matplotlib.figure import Figure

    run = read_run(path)
    folder = Path(folder) if folder is not None else run.folder.figures
    written = []
    with matplotlib.rc_context(STYLE):
        for name, (draw, size) in _drawings(run).items():
            folder.mkdir(parents=True, exist_ok=True)
            figure = Figure(figsize=size, layout="constrained")
            with explaining_damage(run.name):
                draw(run, figure)
            for suffix, metadata in ((".png", {"Software": None}), (".svg", {"Date": None})):
                written.append(folder / f"{name}{suffix}")
                with replacing(written[-1]) as temporary:
                    figure.savefig(temporary, format=suffix[1:], dpi=300, metadata=metadata)
    return written


def _drawings(run: RunRecord) -> dict[str, tuple[Callable[[RunRecord, Any], None], tuple[float, float]]]:
    """How to draw each figure that the run has data for, and its size in inches."""
    results = run.results or {}
    figures = {
        "training": (run.metrics, _training, (9, 2.6)),
        "spectrum": (run.eigenvalues is not None, _spectrum, (4.5, 3.2)),
        "top-eigenvalues": (run.eigenvalues is not None, _top_eigenvalues, (4.5, 3.2)),
        "map": (run.map is not None, _map, (5.5, 5.0)),
        "robustness": ("robustness" in results, _robustness, (12, 2.6)),
        "confusion": (results.get("confusion"), _confusion, (5, 4.6)),
    }
    return {name: (draw, size) for name, (present, draw, size) in figures.items() if present}


def _training(run: RunRecord, figure: Any) -> None:
    keys = [key for key in ("invariance", "variance", "covariance", "effective_rank") if key in run.metrics]
    for axes, key in zip(np.atleast_1d(figure.subplots(1, max(1, len(keys)))), keys, strict=False):
        values = [np.nan if value is None else value for value in run.metrics[key]]
        axes.plot(run.metrics["epoch"], values, color=COLOURS[0])
        axes.set(title=key.replace("_", " "), xlabel="epoch")


def _spectrum(run: RunRecord, figure: Any) -> None:
    assert run.eigenvalues is not None
    assert run.epochs is not None
    axes = figure.subplots()
    frames = np.unique(np.linspace(0, len(run.epochs) - 1, 5).round().astype(int))
    for shade, frame in zip(np.linspace(0.25, 1, len(frames)), frames, strict=True):
        values = run.eigenvalues[frame]
        label = f"epoch {int(run.epochs[frame])}"
        axes.loglog(np.arange(1, len(values) + 1), np.where(values > 0, values, np.nan), color=COLOURS[0], alpha=shade,
                    label=label)  # fmt: skip
    axes.set(xlabel="direction", ylabel="eigenvalue", ylim=(float(run.eigenvalues.max()) * 1e-6, None))
    axes.legend(frameon=False)


def _top_eigenvalues(run: RunRecord, figure: Any) -> None:
    assert run.eigenvalues is not None
    axes = figure.subplots()
    for k in range(min(6, run.eigenvalues.shape[1])):
        axes.semilogy(run.epochs, run.eigenvalues[:, k], color=COLOURS[k], label=str(k + 1))
    axes.set(xlabel="epoch", ylabel="eigenvalue")
    axes.legend(frameon=False, ncols=2, title="eigenvalue")


def _map(run: RunRecord, figure: Any) -> None:
    assert run.map is not None
    axes = figure.subplots()
    classes = _classes(run)
    for label in np.unique(run.map["labels"]):
        points = run.map["points"][run.map["labels"] == label]
        name = classes[label] if 0 <= label < len(classes) else str(label)
        axes.scatter(*points.T, s=4, color=COLOURS[label % 8], marker=MARKS[label // 8 % 4], label=name, linewidths=0)
    axes.set_axis_off()
    axes.set_aspect("equal")
    if 1 < len(np.unique(run.map["labels"])) <= 20:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), markerscale=3)


def _robustness(run: RunRecord, figure: Any) -> None:
    assert run.results is not None
    curves = run.results["robustness"]["curves"]
    looks = {"encoder": (COLOURS[0], "-"), "raw pixels": (COLOURS[6], ":"), "random encoder": (COLOURS[6], "--")}
    looks["starting encoder"] = (COLOURS[6], "-.")
    panels = figure.subplots(1, len(curves["encoder"]), sharey=True)
    for index, axes in enumerate(panels):
        for name, (colour, dash) in looks.items():
            if name in curves:
                points = curves[name][index]["accuracy"]
                low, value, high = ([100 * p[key] for p in points] for key in ("low", "value", "high"))
                axes.plot(value, color=colour, linestyle=dash, label=name)
                axes.fill_between(range(len(low)), low, high, color=colour, alpha=0.15, linewidth=0)
        curve = curves["encoder"][index]
        axes.set(title=curve["shift"], xlabel=curve["unit"])
        axes.set_xticks(range(len(curve["amounts"])), [f"{amount:g}" for amount in curve["amounts"]])
    panels[0].set_ylabel("accuracy, %")
    panels[0].legend(frameon=False)


def _confusion(run: RunRecord, figure: Any) -> None:
    assert run.results is not None
    counts = np.array(run.results["confusion"], dtype=float)
    shares = counts / counts.sum(1, keepdims=True).clip(1)
    axes = figure.subplots()
    axes.imshow(np.sqrt(shares), cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted", ylabel="true")
    classes = _classes(run)
    if len(counts) <= 20:
        names = [classes[k] if k < len(classes) else str(k) for k in range(len(counts))]
        axes.set_xticks(range(len(counts)), names, rotation=90)
        axes.set_yticks(range(len(counts)), names)
        for (i, j), count in np.ndenumerate(counts):
            if count:
                colour = "white" if shares[i, j] > 0.45 else "black"
                axes.text(j, i, int(count), ha="center", va="center", fontsize=7, color=colour)


def _classes(run: RunRecord) -> list[str]:
    return [str(name).replace("$", r"\$") for name in (run.results or {}).get("data", {}).get("classes") or []]
