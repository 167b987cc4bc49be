"""Which encoder, at which size and batch, learns most per minute of a processor: the defaults for photographs.

Every setting trains for the same time of one core, its length fitted by a few timed steps, and is scored on training
images that are held out, with the untrained encoder beside it. Images are decoded before the clock starts.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from experiments.common import Cell, Job, Row, tables
from experiments.common.cells import accuracies, control_encoder, in_former_form
from experiments.common.folder import FolderExperiment, Pairs, in_words
from experiments.common.versions import fingerprint, remark
from kvicreg.data import ImageData
from kvicreg.data.options import DataOptions
from kvicreg.runs import Settings, load_encoder
from kvicreg.training.build import build_views, resolve
from kvicreg.training.cost import measure
from kvicreg.training.run import train

NARROW: dict[str, Any] = {"encoder": "resnet18", "width": 0.5, "stem": "imagenet"}
WIDE = {**NARROW, "width": 1.0}
SMALL: dict[str, Any] = {"encoder": "small-cnn", "width": 1.0}
SETTINGS: tuple[dict[str, Any], ...] = (
    {**NARROW, "image_size": 64},
    {**NARROW, "image_size": 96},
    {**SMALL, "image_size": 64},
    {**SMALL, "image_size": 64, "batch_size": 128},
    {**SMALL, "image_size": 64, "width": 2.0},
    {**SMALL, "image_size": 64, "width": 2.0, "views": "small"},
    {**SMALL, "image_size": 64, "views": "small"},
    {**SMALL, "image_size": 48},
    {**SMALL, "image_size": 96},
    {**NARROW, "image_size": 64, "views": "small"},
    {**NARROW, "image_size": 64, "batch_size": 128},
    {**WIDE, "image_size": 64},
    {"encoder": "resnet18", "width": 0.25, "stem": "small", "image_size": 64},
    {**NARROW, "image_size": 128},
)
"""What is compared; batches of 256 and natural views unless they say otherwise."""


LABELLED = 3000
"""Training images that probes are fitted on."""


@dataclass(frozen=True)
class DefaultEncoder(FolderExperiment, name="default-encoder"):
    """Train encoders on photographs for equal minutes of one core, and compare them with their untrained selves.

    A run takes `--minutes` and a minute or two to score; OMP_NUM_THREADS=1 makes it one core. What learns most in two
    minutes need not in ten: `--best 3` gives the best of a table more time.

    Example:
        OMP_NUM_THREADS=1 python -m experiments default-encoder --photographs photos/ --out docs/results
        OMP_NUM_THREADS=1 python -m experiments default-encoder --photographs photos/ --minutes 8 --best 3
    """

    page = "training.md"
    split = "validation"
    usual_seeds = (0,)
    columns = ("probe", "knn", "untrained_probe", "untrained_knn", "epochs", "cpu_minutes")
    shared = ("kernel", "holdout", "projector_hidden", "projector_outputs", "learning_rate", "precision")
    few = {"photographs": "cifar10", "minutes": 0.01}

    photographs: str = "photos"
    """Folder of labelled photographs."""
    minutes: float = 2.0
    """Processor time for each training."""
    best: int | None = None
    """Only so many of the settings, those that did best in two minutes."""

    def file_of(self, cell: Cell) -> str:
        return f"{cell.labels['minutes']:g}-minutes"

    def cells(self, job: Job) -> list[Cell]:
        usual: dict[str, Any] = {"data": self.photographs, "seed": 0, "workers": 0}
        if job.budget == "smoke":
            return [job.cell(labels(each, self.minutes), **usual, width=each["width"]) for each in SETTINGS[:2]]
        usual |= {"holdout": 1000, "batch_size": 256, "views": "natural"}
        usual |= {"precision": "auto", "probe_images": 0, "log_every": 100}
        variant = f"{self.minutes:g} minutes"
        return [
            Cell(in_former_form(usual | each), labels(each, self.minutes), job.on, LABELLED, None, variant)
            for each in SETTINGS
            if self.best is None or labels(each, 2.0) in best_labels(job.out / self.name, self.best)
        ]

    def measured(self, job: Job, cell: Cell) -> Row:
        folder, data = job.runs / cell.name, decoded(cell.settings.data)
        settings = fitted(cell.settings, data, self.minutes)
        started = time.process_time()
        train(settings.replace(out=str(folder)), data=data, quiet=True, overwrite=True)
        spent = (time.process_time() - started) / 60
        row: Row = {"method": settings.method.name, "on": cell.on, **cell.labels, "seconds": 60 * spent}
        row |= {"epochs": settings.schedule.epochs, "cpu_minutes": round(spent, 2), "config": cell.config}
        row |= self.scores(cell, load_encoder(folder), "")
        row |= self.scores(cell, control_encoder("random encoder", cell.settings), "untrained_")
        return row | {"fingerprint": fingerprint(row)}

    @staticmethod
    def scores(cell: Cell, encoder: nn.Module, prefix: str) -> Row:
        """Accuracies of an encoder's features on the images that are held out."""
        row = accuracies(encoder, cell)
        return {f"{prefix}{name}": round(row[name], 4) for name in ("probe", "knn")}

    def content(self, job: Job, pairs: Pairs) -> dict[str, Any]:
        rows = [
            self.line(cell, row, **{key: row.get(key) for key in self.columns}) | {"settings": {"views": row["views"]}}
            for cell, row in pairs
        ]
        return {"settings": self.settings_of(pairs[0][0]), "data": Path(self.photographs).name, "rows": rows}

    @classmethod
    def for_page(cls, results: Path) -> str:
        paths = sorted((results / cls.name).glob("*.json"), key=lambda path: float(path.stem.partition("-")[0]))
        if not paths:
            return f"Not run yet: `python -m experiments {cls.name} --photographs photos/ --out docs/results`."
        return "\n\n".join(markdown(json.loads(path.read_text())) + remark(path) for path in paths)


def best_labels(folder: Path, count: int) -> list[dict[str, Any]]:
    """Of the settings that did best in two minutes."""
    path = folder / "2-minutes.json"
    if not path.is_file():
        raise ValueError(f"--best: there is no {path}; run it without --best first")
    rows = sorted(json.loads(path.read_text())["rows"], key=lambda row: -row["probe"])[:count]
    return [{name: row[name] for name in labels({}, 2.0)} for row in rows]


def labels(settings: dict[str, Any], minutes: float) -> dict[str, Any]:
    """What tells a row from the others."""
    network = {name: settings.get(name, "") for name in ("encoder", "width", "stem", "image_size")}
    others = {"batch_size": settings.get("batch_size", 256), "views": settings.get("views", "natural")}
    return {**network, **others, "minutes": minutes}


def decoded(options: DataOptions) -> ImageData:
    """The images, decoded before they are needed and kept."""
    data = options.load()
    for rows in torch.arange(len(data)).split(256):
        data.for_views().fetch(rows)
    return data


def fitted(settings: Settings, data: ImageData, minutes: float) -> Settings:
    """The settings with as many epochs as fit into so many minutes of the processor."""
    views = build_views(settings, data)
    size = settings.schedule.batch_size_for(len(data))
    cost = measure(resolve(settings, data, views), data, views, clock=time.process_time)
    return settings.replace(epochs=max(1, round(60 * minutes / cost.seconds(size) / (len(data) // size))))


def markdown(results: dict[str, Any]) -> str:
    """A row for each setting, the best first."""
    heading = ["encoder", "pixels", "batch", "views", "epochs", "linear probe", "untrained", "20-NN", "untrained"]
    lines = []
    for row in sorted(results["rows"], key=lambda row: -row["probe"]):
        stem = f", {row['stem']} stem" if row["stem"] else ""
        lines.append([f"{row['encoder']}, width {row['width']:g}{stem}", row["image_size"], row["batch_size"]])
        lines[-1] += [row["views"], row["epochs"]]
        lines[-1] += [f"{100 * row[name]:.1f}" for name in ("probe", "untrained_probe", "knn", "untrained_knn")]
    minutes, spent = results["rows"][0]["minutes"], [row["cpu_minutes"] for row in results["rows"]]
    note = (
        f"Each trained for about {minutes:g} minutes of one core ({min(spent):.1f} to {max(spent):.1f} in all, the "
        f"measurements between epochs among them) on {results['data']}; accuracy in percent of the training images "
        f"that are held out. Shared: {in_words(results['settings'])}."
    )
    return f"{tables.markdown(heading, lines)}\n\n{note}"
