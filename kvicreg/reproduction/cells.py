"""Cells: what every table is made of. A cell is one run folder and what was measured of its encoder.

A cell that is finished is skipped, one that was cut short is resumed, so a table can be made in many sittings and,
with `part`, on many machines that share the folder of runs.
"""

from __future__ import annotations

import csv
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from kvicreg.data import ImageData, first_images, hold_out, load
from kvicreg.evaluation.controls import RawPixels
from kvicreg.evaluation.features import extract
from kvicreg.evaluation.intervals import bootstrap_interval
from kvicreg.evaluation.probes import knn, labelled_subset, linear_probe
from kvicreg.models import PretrainedEncoder, load_encoder
from kvicreg.storage import write_atomically
from kvicreg.training.alarm import NotFinite
from kvicreg.training.build import build_data, build_method, build_views, is_run_of, resolve, with_loss_defaults
from kvicreg.training.config import TrainConfig, load_config
from kvicreg.training.run import train

__all__ = ["Cell", "Split", "controls", "finished", "is_row_of", "run_cells"]

Split = Literal["validation", "test"]
PROBE_IMAGES = 10_000
"""Labelled training images that the probes of a cell are fitted on, unless it says otherwise."""
FEW_LABELS = 1_000
"""Of the second linear probe."""
CONTROLS = ("raw pixels", "random encoder")
_PIXEL_SETTINGS = ("data", "image_size", "channels", "holdout")
_CONTROL_SETTINGS = (*_PIXEL_SETTINGS, "encoder", "width", "stem", "pool", "early_pool", "norm", "seed")
Say = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """One training run of a table.

    Args:
        name: its folder.
        config: its settings; `holdout` images of the training set are for validation.
        labels: what tells it from the others in the table, such as its kernel.
        probe_images: labelled images to fit the probes on.
        target: other data to fit and score the probes on (transfer); by default those of training.
    """

    name: str
    config: TrainConfig
    labels: dict[str, Any] = field(default_factory=dict)
    probe_images: int = PROBE_IMAGES
    target: str | None = None

    def result(self, runs: Path, on: Split) -> Path:
        """The file that holds what was measured."""
        return runs / self.name / f"cell-{on}{f'-{Path(self.target).name}' if self.target else ''}.json"


def run_cells(
    cells: Sequence[Cell],
    runs: Path,
    *,
    on: Split,
    part: tuple[int, int] = (0, 1),
    folders: bool = False,
    say: Say = print,
) -> list[dict[str, Any]]:
    """Train and measure the cells that are not finished; returns a row for each that is.

    A training that ends in numbers that are not finite is a result too: its row has "failed", and no scores.

    Args:
        runs: folder of the run folders.
        on: score on the images held out of training, or on the test set.
        part: (k, n): train only every n-th cell, from the k-th on; the others are left to other processes.
        folders: the run folders themselves are wanted, so that a row restored from a table does not do.
    """
    distinct: dict[Path, Cell] = {}
    for cell in cells:
        same = distinct.setdefault(cell.result(runs, on), cell)
        if _asked(same) != _asked(cell):
            raise ValueError(f"two cells of different settings are called {cell.name!r}")
    mine = [*distinct.values()][part[0] :: part[1]]
    todo = [cell for cell in mine if finished(cell, runs, on, folders) is None]
    started = time.perf_counter()
    for number, cell in enumerate(todo, 1):
        if finished(cell, runs, on, folders) is not None:  # by another process since
            continue
        try:
            row = _run(cell, runs, on)
        except BlockingIOError as error:  # another command wants the same run, and has it
            say(f"{number}/{len(todo)} {cell.name} is left to another process: {error}")
            continue
        scores = row.get("failed") or ", ".join(f"{key} {row[key]:.4g}" for key in ("probe", "knn", "seconds"))
        left = (time.perf_counter() - started) / number * (len(todo) - number) / 60
        told = ", ".join(f"{value}" for value in cell.labels.values() if isinstance(value, str | int | float) and value)
        say(f"{number}/{len(todo)} {cell.name} ({told}): {scores}; about {left:.0f} min left")
    return [found for cell in cells if (found := finished(cell, runs, on, folders)) is not None]


def finished(cell: Cell, runs: Path, on: Split, folders: bool = False) -> dict[str, Any] | None:
    """The row of a cell that was run with these very settings (with `folders`, in its folder here), else None."""
    for place in (runs,) if folders else (runs, runs / "restored"):
        if (path := cell.result(place, on)).is_file():
            row: dict[str, Any] = json.loads(path.read_text())
            if is_row_of(cell, row):
                return {**row, **cell.labels}
    return None


def is_row_of(cell: Cell, row: dict[str, Any]) -> bool:
    """Whether a row was measured with a cell's very settings; which precision was quick there does not matter."""
    usual = {name: getattr(TrainConfig(), name) for name in asdict(cell.config)} | {"target": None}
    explicit = {**asdict(cell.config), "target": cell.target}
    asked = _asked(cell)
    if asked["precision"] == "auto" and row["config"].get("precision") in ("32-true", "bf16-mixed"):
        del asked["precision"]
    # a setting that did not exist then must be left alone now
    return all(
        row["config"][name] == value if name in row["config"] else explicit.get(name) == usual.get(name)
        for name, value in asked.items()
    )


def controls(
    config: TrainConfig,
    runs: Path,
    *,
    on: Split,
    probe_images: int = PROBE_IMAGES,
    target: str | None = None,
    known: Sequence[dict[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Rows of raw pixels and of the encoder as its seed made it, untrained; `known` ones are not measured again."""
    rows = []
    usual = asdict(TrainConfig())  # what a setting was when it did not exist yet
    for name in CONTROLS:
        asked = _CONTROL_SETTINGS if name == "random encoder" else _PIXEL_SETTINGS
        settings = {key: getattr(config, key) for key in asked} | {"probe_images_of_cell": probe_images}
        of_name = [row for row in known if row["method"] == name]
        same = [row for row in of_name if settings.items() <= {**usual, **row["config"]}.items()]
        if same and target is None:
            rows.append({**same[0], "config": settings})
            continue
        settings |= {"target": target} if target else {}
        digest = hashlib.sha256(json.dumps([settings, on]).encode()).hexdigest()[:8]
        path = runs / "controls" / f"{Path(target or config.data).name}-{name.replace(' ', '-')}-{digest}.json"
        row = json.loads(path.read_text()) if path.is_file() else {}
        if row.get("config") != settings:
            encoder = control_encoder(name, config)
            seed = config.seed if name == "random encoder" else 0
            row = {"method": name, "kernel": None, "data": Path(config.data).name, "seed": seed}
            row |= _measure(encoder, replace(config, seed=seed), on, probe_images, target)
            row |= {"seconds": 0.0, "config": settings}
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(row, indent=1).encode() + b"\n")
        rows.append(row)
    return rows


def control_encoder(name: str, config: TrainConfig) -> nn.Module:
    """ "raw pixels", or the "random encoder" of a config as its seed made it."""
    data = build_data(config)
    if name == "raw pixels":
        return RawPixels(data.shape)
    views = build_views(config, data)
    method = build_method(resolve(config, data, views))
    description: dict[str, Any] = {"feature_dim": method.encoder.feature_dim, "image_size": data.shape[1]}
    description |= {"mean": list(views.mean), "std": list(views.std)}
    return PretrainedEncoder(method.encoder, None, description).eval()


def _asked(cell: Cell) -> dict[str, Any]:
    """The settings of a cell as json keeps them, the loss's own included; where its folder lies does not matter."""
    settings = {
        **asdict(with_loss_defaults(cell.config)),
        "out": None,
        "data_root": None,
        "probe_images_of_cell": cell.probe_images,
    }
    settings |= {"target": cell.target} if cell.target else {}
    asked: dict[str, Any] = json.loads(json.dumps(settings))
    return asked


def _run(cell: Cell, runs: Path, on: Split) -> dict[str, Any]:
    folder = runs / cell.name
    config = TrainConfig(**{**asdict(cell.config), "out": str(folder)})
    row: dict[str, Any] = {"method": config.method, "kernel": config.kernel if config.uses_kernel else None}
    row |= {"data": Path(config.data).name, "seed": config.seed}
    try:
        if not (folder / "encoder.safetensors").is_file() or not is_run_of(folder, config):
            resume = (folder / "checkpoints" / "last.ckpt").is_file() and is_run_of(folder, config)
            train(config, quiet=True, resume=resume, overwrite=not resume)
        row |= _measure(load_encoder(folder), config, on, cell.probe_images, cell.target)
        row |= {**_training(folder), "threads": torch.get_num_threads()}
        row |= {"precision": load_config(folder / "config.yaml").precision}
    except NotFinite as error:
        row |= {"on": on, "failed": str(error)}
    row |= {"config": _asked(cell)}
    write_atomically(cell.result(runs, on), json.dumps(row, indent=1).encode() + b"\n")
    return row


def _training(folder: Path) -> dict[str, Any]:
    """What the run itself recorded: the embeddings' effective rank at the end, and the seconds all its epochs took."""
    with (folder / "metrics.csv").open() as file:
        epochs = list(csv.DictReader(file))
    config = load_config(folder / "config.yaml")
    steps = [int(row["step"]) for row in epochs]
    images = [(now - before) * config.batch_size * config.accumulate for before, now in pairwise([0, *steps])]
    seconds = sum(count / float(row["images_per_second"]) for count, row in zip(images, epochs, strict=True))
    rank, bound = (float(epochs[-1][name] or 0) for name in ("effective_rank", "effective_rank_bound"))
    share = rank / bound if bound else 0.0  # 0 where it could not be measured: no spectrum has that
    return {"effective_rank": rank, "effective_rank_share": share, "seconds": round(seconds, 1)}


def _measure(
    encoder: nn.Module, config: TrainConfig, on: Split, probe_images: int, target: str | None = None
) -> dict[str, Any]:
    """Accuracy, with its interval over the scored images, of linear probes and of 20 nearest neighbours."""
    fit, score = splits(config, on, probe_images, target)
    assert fit.labels is not None
    assert score.labels is not None
    x, t = extract(encoder, fit), extract(encoder, score)
    found: dict[str, Any] = {"on": on, "fitted_on": len(fit), "scored_on": len(score)}
    sets = (x, fit.labels, t, score.labels)
    few = labelled_subset(fit.labels, min(1.0, FEW_LABELS / len(fit)), seed=0)
    results = {
        "probe": linear_probe(*sets, seed=config.seed),
        "probe_few": linear_probe(x[few], fit.labels[few], t, score.labels, seed=config.seed),
        "knn": knn(*sets, k=min(20, len(x))),
    }
    for name, result in results.items():
        interval = bootstrap_interval(result.correct, seed=config.seed)
        found |= {name: result.accuracy, f"{name}_low": interval.low, f"{name}_high": interval.high}
    return found


def splits(
    config: TrainConfig, on: Split, probe_images: int = PROBE_IMAGES, target: str | None = None
) -> tuple[ImageData, ImageData]:
    """Labelled images to fit probes on, and those to score them on; neither depends on the run's seed or size."""
    shape: dict[str, Any] = {"root": config.data_root, "image_size": config.image_size, "channels": config.channels}
    if target is not None:  # brought to the size and channels of the images the encoder was trained on
        channels, size, _ = load(config.data, "train", **shape).shape
        shape |= {"image_size": size, "channels": channels}
    source = target or config.data
    data = load(source, "train", **shape)
    rest, held = hold_out(data, config.holdout)
    score = held if on == "validation" else load(source, "test", **shape)
    if score is None:
        raise ValueError("holdout: validation needs images set aside; give a number above 0")
    if rest.labels is None or score.labels is None:
        raise ValueError(f"{source!r} has no labelled train and test images to compare methods on")
    return first_images(rest, min(probe_images, len(rest))), score
