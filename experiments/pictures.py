"""The paper's pictures: UMAP of three encoders of MNIST, eigenvalues over training, and what the loss costs."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
from matplotlib import colormaps

from experiments.common import Cell, Experiment, Job, Result, splits, write
from experiments.common.drawing import panels
from kvicreg.cli.bench import bench_loss
from kvicreg.data import first_images
from kvicreg.evaluation.maps import umap_points
from kvicreg.measures.features import extract
from kvicreg.runs import RunFolder, load_encoder
from kvicreg.runs.stored import has_encoder

IMAGES = {"smoke": 60, "small": 3_000, "full": 5_000}
SHOWN = 10
"""Eigenvalues that are drawn."""
SHARES = "shares_after_each_epoch"


class _Picture(Experiment):
    former = True
    models: ClassVar[dict[str, dict[str, Any]]]
    usual_seeds = (0,)

    def cells(self, job: Job) -> list[Cell]:
        of = self.models.items()
        return [job.cell({"name": name}, data="mnist", seed=job.seeds[0], **changes) for name, changes in of]


class Umap(_Picture, name="figure-umap"):
    """The paper's UMAP of MNIST: VICReg, linear and Laplacian kernels side by side.

    It is drawn where the run folders are, or their maps: a table that is continued from its file keeps its picture.
    """

    models = {
        "VICReg": {"method": "vicreg"},
        "linear kernel": {"kernel": "linear"},
        "Laplacian kernel": {"kernel": "laplacian"},
    }

    def figure(self, result: Result) -> None:
        job, rows = result.job, result.trained
        cells = {cell.labels["name"]: cell for cell in result.cells}
        maps = [umap_of(job, cells[row["name"]]) for row in rows]
        if None in maps:
            job.say("figure-umap is left as it is: it needs the folders of its runs, which are not here")
            return
        title = "MNIST's digits, as three encoders see them"
        detail = (
            f"UMAP of the frozen features of {min(IMAGES[job.budget], rows[0]['scored_on']):,} {job.on} images; "
            "colours and numbers are the digits, which training never saw."
        )
        with panels(job.out / self.stem, (15, 5.9), title, detail, len(rows)) as ((*every,),):
            for axes, row, points in zip(every, rows, maps, strict=True):
                _draw_map(axes, np.array(points["points"]), np.array(points["labels"]))
                axes.set_title(f"{row['name']}: probe {row['probe']:.1%}, 20-NN {row['knn']:.1%}")


def _draw_map(axes: Any, points: np.ndarray, labels: np.ndarray) -> None:
    size = 5 if len(points) > 500 else 20
    axes.scatter(*points.T, c=labels, cmap="tab10", s=size, alpha=0.7, linewidths=0, rasterized=True)
    box = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "alpha": 0.85, "linewidth": 0}
    for digit in np.unique(labels):
        centre = np.median(points[labels == digit], axis=0)
        axes.text(*centre, str(digit), ha="center", va="center", fontsize=13, fontweight="bold", bbox=box)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def umap_of(job: Job, cell: Cell) -> Any:
    """Points and labels of scored images, computed once for each run; None where its folder is not here."""
    folder = job.runs / cell.name
    path = folder / f"umap-{job.on}.json"
    if not path.is_file():
        if not has_encoder(folder):
            return None
        _, score = splits(cell)
        score = first_images(score, min(IMAGES[job.budget], len(score)))
        assert score.labels is not None
        points = umap_points(extract(load_encoder(folder), score), seed=0)
        rounded = [[round(v, 3) for v in point] for point in points.tolist()]
        write(path, {"points": rounded, "labels": score.labels.tolist()})
    return json.loads(path.read_text())


class Eigenvalues(_Picture, name="figure-eigenvalues"):
    """The leading eigenvalues of the centred operator over training."""

    models = {"VICReg": {"method": "vicreg"}} | {k: {"kernel": k} for k in ("linear", "rbf", "laplacian", "rq")}

    def about(self, result: Result) -> dict[str, Any]:
        """Shares of the leading eigenvalues, as training recorded them; else as the table has them already."""
        path = result.job.out / f"{self.stem}.json"
        shares = json.loads(path.read_text()).get(SHARES, {}) if path.is_file() else {}
        for cell in result.cells:
            if (spectra := RunFolder(result.job.runs / cell.name).spectra()) is not None:
                values = spectra["eigenvalues"]
                leading = (values / values.sum(1, keepdims=True))[:, :SHOWN]
                shares[cell.labels["name"]] = leading.round(5).tolist()
        return {SHARES: {row["name"]: shares[row["name"]] for row in result.trained if row["name"] in shares}}

    def figure(self, result: Result) -> None:
        rows = [row for row in result.trained if row["name"] in result.about[SHARES]]
        title = f"The {SHOWN} leading eigenvalues of the centred operator over training, on MNIST"
        detail = (
            "Share of the total variance in feature space, of one fixed batch; VICReg's in the embedding space itself. "
            "Dark: the largest."
        )
        with panels(result.job.out / self.stem, (16, 5.8), title, detail, len(rows), sharey=True) as ((*every,),):
            for axes, row in zip(every, rows, strict=True):
                shares = 100 * np.array(result.about[SHARES][row["name"]])
                epochs = np.arange(1, len(shares) + 1)
                axes.set_prop_cycle(color=colormaps["cividis"](np.linspace(0, 0.9, SHOWN)))
                axes.plot(epochs, shares, linewidth=1.8)
                axes.set(xlabel="epoch", yscale="log", xticks=epochs[:: max(1, len(epochs) // 6)])
                axes.set_title(f"{row['name']}\nprobe {row['probe']:.1%}, effective rank {row['effective_rank']:.0f}")
                axes.grid(axis="y")
            every[0].set_ylabel("share of the variance, %")
            every[0].yaxis.set_major_formatter("{x:g}")
            every[0].yaxis.set_minor_formatter("{x:g}")


class Latency(Experiment, name="figure-latency"):
    """The paper's latency and memory figures (kvicreg bench loss): OUT/bench-loss."""

    def run(self, job: Job) -> Result:
        """Time and memory over width and batch size; the benchmark's own sizes unless it is a trial."""
        few: dict[str, Any] = {"sizes": ("32x256", "32x1024", "64x1024"), "scaling_sizes": (), "repeats": 1}
        few |= {"kernels": ("linear", "polynomial", "rbf")}
        bench_loss(job.out / "bench-loss", **(few if job.budget == "smoke" else {}))
        return Result(job, [], [])
