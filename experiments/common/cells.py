"""Cells: what tables are made of. A cell is one run (or a control, which needs none) and what is measured of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from kvicreg.data import ImageData, first_images, hold_out, load
from kvicreg.evaluation.controls import RawPixels
from kvicreg.evaluation.intervals import bootstrap_interval
from kvicreg.evaluation.probes import knn, labelled_subset, linear_probe
from kvicreg.measures.features import extract
from kvicreg.models import PretrainedEncoder
from kvicreg.options import Values
from kvicreg.runs import RunFolder, Settings
from kvicreg.training.build import build_method, build_views, resolve

Row = dict[str, Any]
Split = Literal["validation", "test"]
PROBE_IMAGES, FEW_LABELS = 10_000, 1_000
"""Labelled training images that the two linear probes of a cell are fitted on, unless it says otherwise."""
_PIXELS = ("data", "image_size", "channels", "holdout")
CONTROLS = {
    "raw pixels": _PIXELS,
    "random encoder": (*_PIXELS, "encoder", "width", "stem", "pool", "early_pool", "norm", "seed"),
}
"""What runs are compared with, and the settings that it depends on."""
STARTING = "starting encoder"
UNTRAINED = {
    **CONTROLS,
    STARTING: (*_PIXELS, "encoder", "model_args", "width", "stem", "norm", "init", "pretrained", "normalize"),
}
"""The same, and beside runs that start from weights of elsewhere, those weights as they are."""
ELSEWHERE = ("out", "data_root")
"""Settings that say where things lie, and have no part in what a run is."""
RENAMED = {"spread_weight": "hsic_weight", "scale": "zoom"}
FORMER = {"spectrum": "per-view", "bandwidth": "median"}
"""What Kernel VICReg did by default when rows did not yet say it, and does in the tables that are made of them."""


@dataclass(frozen=True)
class Cell:
    """One run of a table, or one control.

    Args:
        settings: those of the run; `holdout` images of the training set are for validation.
        labels: what tells it from the others in the table, such as its kernel.
        on: score on training images that are held out, or on the test set.
        probe_images: labelled images to fit the probes on.
        target: other data to fit and score the probes on (transfer); by default those of training.
        variant: what else sets the run apart, such as images that were changed.
        control: the name of a control, which has the encoder of the settings untrained, or none.
    """

    settings: Settings
    labels: dict[str, Any] = field(default_factory=dict)
    on: Split = "test"
    probe_images: int = PROBE_IMAGES
    target: str | None = None
    variant: str = ""
    control: str | None = None

    @cached_property
    def config(self) -> dict[str, Any]:
        """All that the row's numbers depend on, for the record."""
        settings = flat(self.settings)
        if self.control is not None:
            settings = {name: settings.get(name) for name in UNTRAINED[self.control]}
        settings["probe_images_of_cell"] = self.probe_images
        settings |= {"target": Path(self.target).name} if self.target else {}
        return settings | ({"variant": self.variant} if self.variant else {})

    @cached_property
    def identity(self) -> str:
        """Equal for cells, and for rows, that are the same measurement of the same run."""
        return identity_of({"method": self.control, "on": self.on, "config": self.config})

    @cached_property
    def name(self) -> str:
        """The folder of its run, the same in every experiment that has this run."""
        if self.control is not None:
            return f"controls/{self.identity}"
        settings = self.settings
        digest = hashlib.sha256(json.dumps(flat(settings), sort_keys=True).encode()).hexdigest()[:8]
        name = f"{settings.data.short_name}-{settings.method.label}-{settings.engine.seed}-{digest}"
        return f"{name}{f'-{self.variant}' if self.variant else ''}".replace(" ", "-")

    @property
    def result(self) -> str:
        """The file, in the folder of runs, that holds what was measured."""
        return f"{self.name}/cell-{self.on}{f'-{Path(self.target).name}' if self.target else ''}.json"

    @property
    def words(self) -> set[str]:
        """By what people can ask for it: its labels, and where it comes from."""
        settings, names = self.settings, map(str, self.labels.values())
        return {*names, settings.method.name, settings.data.short_name, str(kernel_of(settings))}


def flat(settings: Settings) -> dict[str, Any]:
    """Every setting that is read, by name, with what is left open and the method's own defaults written out."""
    values = settings.usual().resolved_method().flat()
    values |= {name: Path(values[name]).name for name in ("data", "groups", "init") if values.get(name)}
    return {name: value for name, value in values.items() if name not in ELSEWHERE}


def identity(recorded: dict[str, Any]) -> dict[str, Any]:
    """What a run is, from the settings that a row of any age recorded.

    A row used to have every setting of every method, most of them unread, and the views' strengths in a table of their
    own. A setting that did not exist then has the value it has now when nobody gives it.
    """
    given = {**recorded, **recorded.get("view", {})}
    given = {RENAMED.get(name, name): value for name, value in given.items() if value is not None}
    return flat(in_former_form({name: value for name, value in given.items() if name not in ELSEWHERE}))


def in_former_form(given: dict[str, Any]) -> Settings:
    """These settings, with the spectrum and the bandwidth that were the default, where they are read and not given."""
    has_rule = "gamma" not in given and given.get("method") != "ssl-hsic"  # whose kernel always had a scale of 1
    former = {name: value for name, value in FORMER.items() if has_rule or name != "bandwidth"}
    return Settings.read(Values({**former, **given}))


def identity_of(row: Row) -> str:
    """A digest of what a row measures, whatever the names of its settings were when it was measured.

    Which precision was quick on that machine is left out.
    """
    return _digest(row["method"], row["on"], json.dumps(row["config"], sort_keys=True))


@cache
def _digest(method: str | None, on: str, config: str) -> str:
    settings = json.loads(config)
    more = {name: settings.pop(name, None) for name in ("probe_images_of_cell", "target", "variant")}
    whole = identity(settings)
    if method in UNTRAINED:
        whole = {name: whole.get(name) for name in UNTRAINED[method]} | {"control": method}
    whole.pop("precision", None)
    return hashlib.sha256(json.dumps([whole, more, on], sort_keys=True).encode()).hexdigest()[:16]


def is_row_of(cell: Cell, row: Row) -> bool:
    """Whether a row was measured with a cell's very settings."""
    if identity_of(row) != cell.identity:
        return False
    wanted, used = cell.config.get("precision"), row["config"].get("precision")
    return cell.control is not None or wanted == used or (wanted == "auto" and used in ("32-true", "bf16-mixed"))


def kernel_of(settings: Settings) -> str | None:
    """The kernel of the method, where it has one."""
    kernel = getattr(settings.method, "kernel", None)
    return None if kernel is None else str(kernel.choice)


def control_encoder(name: str, settings: Settings) -> nn.Module:
    """ "raw pixels", the "random encoder" of these settings as their seed made it, or their "starting encoder"."""
    data = settings.data.load()
    if name == "raw pixels":
        return RawPixels(data.shape)
    if name != STARTING:
        settings = settings.replace(init=None, pretrained=False)
    views = build_views(settings, data)
    method = build_method(resolve(settings, data, views))
    description: dict[str, Any] = {"feature_dim": method.encoder.feature_dim, "image_size": data.shape[1]}
    description |= {"mean": list(views.mean), "std": list(views.std)}
    return PretrainedEncoder(method.encoder, None, description).eval()


def recorded(folder: Path) -> dict[str, Any]:
    """What the run itself recorded: the embeddings' effective rank at the end, and the seconds all its epochs took."""
    run = RunFolder(folder)
    metrics, schedule = run.metrics(), run.settings.schedule
    steps, speeds = metrics.measured("step"), metrics.measured("images_per_second")
    assert schedule.batch_size is not None  # a run's settings are resolved
    per_step = schedule.accumulate * schedule.batch_size
    images = [(now - before) * per_step for before, now in pairwise([0, *steps])]
    seconds = sum(count / speed for count, speed in zip(images, speeds, strict=True))
    rank, bound = (metrics.columns[name][-1] or 0.0 for name in ("effective_rank", "effective_rank_bound"))
    share = rank / bound if bound else 0.0  # 0 where it could not be measured: no spectrum has that
    about = {"effective_rank": rank, "effective_rank_share": share, "seconds": round(seconds, 1)}
    return about | {"threads": torch.get_num_threads(), "precision": run.settings.engine.precision}


def controls_of(settings: Settings) -> list[str]:
    """The names of what a run with these settings is compared with."""
    return [*CONTROLS, *([STARTING] if settings.model.has_start else [])]


def accuracies(
    encoder: nn.Module, cell: Cell, *, few_labels: int = FEW_LABELS, most_scored: int | None = None
) -> dict[str, Any]:
    """Accuracy, with its interval over the scored images, of linear probes and of 20 nearest neighbours.

    "correct" has which images each got right, for comparisons image by image.

    Args:
        encoder: with its preprocessing.
        cell: whose images they are.
        few_labels: images that the second linear probe is fitted on.
        most_scored: where there are more images to score on, only so many of them.
    """
    fit, score = splits(cell)
    score = first_images(score, min(most_scored or len(score), len(score)))
    assert fit.labels is not None
    assert score.labels is not None
    seed = cell.settings.engine.seed if cell.control != "raw pixels" else 0
    x, t = extract(encoder, fit), extract(encoder, score)
    few = labelled_subset(fit.labels, min(1.0, few_labels / len(fit)), seed=0)
    results = {
        "probe": linear_probe(x, fit.labels, t, score.labels, seed=seed),
        "probe_few": linear_probe(x[few], fit.labels[few], t, score.labels, seed=seed),
        "knn": knn(x, fit.labels, t, score.labels, k=min(20, len(x))),
    }
    row: Row = {"on": cell.on, "fitted_on": len(fit), "scored_on": len(score)}
    row["correct"] = {name: result.correct.bool().numpy() for name, result in results.items()}
    for name, result in results.items():
        interval = bootstrap_interval(result.correct, seed=seed)
        row |= {name: result.accuracy, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return row


def splits(cell: Cell) -> tuple[ImageData, ImageData]:
    """Labelled images to fit probes on, and those to score them on; neither depends on the run's seed or size."""
    settings, source = cell.settings.data, cell.target or cell.settings.data.source
    shape: dict[str, Any] = {"image_size": settings.image_size, "channels": settings.channels, "root": settings.root}
    if cell.target is not None:  # brought to the size and channels of the images the encoder was trained on
        channels, size, _ = load(settings.source, "train", **shape).shape
        shape |= {"image_size": size, "channels": channels}
    rest, held_out = hold_out(load(source, "train", **shape), settings.holdout)
    score = held_out if cell.on == "validation" else load(source, "test", **shape)
    if score is None:
        raise ValueError("holdout: validation needs images set aside; give a number above 0")
    if rest.labels is None or score.labels is None:
        raise ValueError(f"{source!r} has no labelled train and test images to compare methods on")
    return first_images(rest, min(cell.probe_images, len(rest))), score
