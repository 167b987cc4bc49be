"""One candidate, trained step by step: continued from where it was, measured without labels, remembered on disk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor

from kvicreg.data import ImageData, first_images
from kvicreg.measures.features import evaluating
from kvicreg.runs import RunFolder, Settings
from kvicreg.selection.criteria import measure_views, neighbours
from kvicreg.selection.facts import plain_features, view_features
from kvicreg.training.module import SelfSupervised
from kvicreg.training.monitor import kernel_of, spectrum
from kvicreg.training.run import train

__all__ = ["advance", "finish", "neighbours_after"]

IMAGES = 1000
VIEWS = 4
FOLDS = 4


class _StepsDone(Exception):
    """The training has reached the step at which it is to be measured."""


class _StopAt(pl.Callback):
    """Ends a training after this many steps as if it were interrupted there, with a checkpoint of that very step."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.module: Any = None

    def setup(self, trainer: pl.Trainer, module: Any, stage: str) -> None:
        self.module = module

    def on_train_start(self, trainer: pl.Trainer, module: Any) -> None:
        if trainer.global_step >= self.steps:
            raise _StepsDone

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        if trainer.global_step >= self.steps and module.batches_done % module.batches_per_epoch:
            trainer.save_checkpoint(RunFolder(module.settings.folder).checkpoint("last"))
            raise _StepsDone

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step >= self.steps:  # the checkpoint of the epoch is written
            raise _StepsDone


def advance(
    settings: Settings, steps: int, *, data: ImageData | None = None, callbacks: Sequence[pl.Callback] = ()
) -> dict[str, Any]:
    """Train the run in the settings' folder up to this many steps and measure it; what is done already is only read.

    The learning rate follows the schedule of the whole run, so a run that is continued to its end equals one that was
    never interrupted. Returns values of the criteria and their standard errors over parts of the images.
    """
    run = RunFolder(settings.folder)
    if _is_run_of(settings, run) and (measured := run.criteria(steps)) is not None:
        return measured
    data = settings.data.load() if data is None else data
    stop = _StopAt(steps)
    with suppress(_StepsDone):
        _train(settings, data, [*callbacks, stop])
    values, nearest = _measure(stop.module, data)
    run.write_criteria(steps, {"steps": steps, **values}, nearest.to(torch.int16).numpy())
    return {"steps": steps, **values}


def finish(settings: Settings, *, data: ImageData | None = None) -> Path:
    """Continue a candidate's run to the end of its epochs."""
    return _train(settings, settings.data.load() if data is None else data)


def neighbours_after(run: RunFolder, steps: int) -> Tensor:
    """The neighbours (n, k) of the measured images after this many steps."""
    return torch.from_numpy(run.neighbours(steps).astype(np.int64))


def _is_run_of(settings: Settings, run: RunFolder) -> bool:
    return run.exists and settings.agrees_with(run.settings)


def _train(settings: Settings, data: ImageData, callbacks: Sequence[pl.Callback] = ()) -> Path:
    run = RunFolder(settings.folder)
    resume = run.checkpoint("last").is_file() and _is_run_of(settings, run)
    return train(settings, data=data, resume=resume, overwrite=not resume, quiet=True, callbacks=callbacks)


def _measure(module: SelfSupervised, data: ImageData) -> tuple[dict[str, Any], Tensor]:
    """The criteria with their standard errors, and the neighbours (n, k), of the first images."""
    method, views = module.method, module.views
    assert views is not None
    sample = first_images(data, min(IMAGES, len(data)))
    plain = plain_features(method.encoder, sample, views)
    seen = [view_features(method.encoder, sample, views, view) for view in range(VIEWS)]
    if not all(bool(torch.isfinite(x).all()) for x in (plain, *seen)):
        raise ValueError("the features are not finite: the network diverged")
    with evaluating(method):
        embeddings = [method.projector(view[:512].to(module.dtype)).float() for view in seen[:2]]
        loss = float(method.loss(*embeddings))
    rank = spectrum(embeddings[0], kernel_of(method)).effective_rank
    values = measure_views(plain, seen) | {"loss": -loss, "embedding_rank": rank}
    errors = _standard_errors(plain, seen)
    return {"criteria": values, "standard_errors": errors, "images": len(plain)}, neighbours(plain)


def _standard_errors(plain: Tensor, seen: Sequence[Tensor]) -> dict[str, float]:
    """The standard error of each criterion, from its values on a few parts of the images; empty with too few."""
    parts = [
        measure_views(plain[rows], [view[rows] for view in seen])
        for rows in torch.arange(len(plain)).chunk(FOLDS)
        if len(rows) > 20
    ]
    if len(parts) < 2:
        return {}
    return {name: _standard_error([part[name] for part in parts]) for name in parts[0]}


def _standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))
