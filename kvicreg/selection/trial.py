"""One candidate, trained step by step: continued from where it was, measured without labels, and remembered on disk."""

from __future__ import annotations

import io
import json
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
from kvicreg.evaluation.features import extract
from kvicreg.selection.criteria import measure_views, nearest
from kvicreg.storage import write_atomically
from kvicreg.training.build import build_data, is_run_of
from kvicreg.training.config import TrainConfig
from kvicreg.training.module import SelfSupervised
from kvicreg.training.monitor import dtype_of, evaluating, kernel_of, spectrum
from kvicreg.training.run import train

__all__ = ["advance", "finish", "neighbours_of"]

IMAGES = 1000
VIEWS = 4
FOLDS = 4


class _Enough(Exception):
    """As many steps as were asked for have been made."""


class _StopAt(pl.Callback):
    """Ends a training after so many steps as if it were interrupted there, with a checkpoint of that very step."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.module: Any = None

    def setup(self, trainer: pl.Trainer, module: Any, stage: str) -> None:
        self.module = module

    def on_train_start(self, trainer: pl.Trainer, module: Any) -> None:
        if trainer.global_step >= self.steps:
            raise _Enough

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        if trainer.global_step >= self.steps and module.batches_done % module.batches_per_epoch:
            trainer.save_checkpoint(Path(module.config.out) / "checkpoints" / "last.ckpt")
            raise _Enough

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step >= self.steps:  # the checkpoint of the epoch is written
            raise _Enough


def advance(
    config: TrainConfig, steps: int, *, data: ImageData | None = None, callbacks: Sequence[pl.Callback] = ()
) -> dict[str, Any]:
    """Train the run in the config's folder up to so many steps and measure it; what is done already is only read.

    The learning rate follows the schedule of the whole run, so a run that is continued to its end equals one that was
    never interrupted. Returns values of the criteria and their standard errors over parts of the images.
    """
    folder = config.folder
    path = folder / f"criteria-{steps}.json"
    if path.is_file() and is_run_of(folder, config):
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    data = build_data(config) if data is None else data
    stop = _StopAt(steps)
    with suppress(_Enough):
        _train(config, data, [*callbacks, stop])
    found = {"steps": steps, **_measure(stop.module, data, folder / f"neighbours-{steps}.npz")}
    write_atomically(path, json.dumps(found, indent=1).encode() + b"\n")
    return found


def finish(config: TrainConfig, *, data: ImageData | None = None, quiet: bool = True) -> Path:
    """Continue a candidate's run to the end of its epochs."""
    return _train(config, build_data(config) if data is None else data, (), quiet=quiet)


def neighbours_of(folder: Path, steps: int) -> Tensor:
    """The neighbours (n, k) of the measured images after so many steps."""
    with np.load(folder / f"neighbours-{steps}.npz", allow_pickle=False) as arrays:
        return torch.from_numpy(arrays["neighbours"].astype(np.int64))


def _train(config: TrainConfig, data: ImageData, callbacks: Sequence[pl.Callback], quiet: bool = True) -> Path:
    folder = config.folder
    resume = (folder / "checkpoints" / "last.ckpt").is_file() and is_run_of(folder, config)
    return train(config, data=data, resume=resume, overwrite=not resume, quiet=quiet, callbacks=callbacks)


def _measure(module: SelfSupervised, data: ImageData, neighbours: Path) -> dict[str, Any]:
    method, views = module.method, module.views
    assert views is not None
    shown = first_images(data, min(IMAGES, len(data)))

    def look(view: int) -> Tensor:
        return extract(
            method.encoder,
            shown,
            alter=lambda images, samples: views(images, samples, seed=0, epoch=0, view=view),
            preprocess=lambda x: x.to(dtype_of(method)),
        )

    plain, seen = extract(method.encoder, shown, preprocess=views.plain), [look(view) for view in range(VIEWS)]
    if not all(bool(torch.isfinite(x).all()) for x in (plain, *seen)):
        raise ValueError("the features are not finite: the network diverged")
    file = io.BytesIO()
    np.savez_compressed(file, neighbours=nearest(plain).to(torch.int16).numpy())
    write_atomically(neighbours, file.getvalue())
    with evaluating(method):
        embeddings = [method.projector(view[:512].to(module.dtype)).float() for view in seen[:2]]
        loss = float(method.loss(*embeddings))
    rank = spectrum(embeddings[0], kernel_of(method)).effective_rank
    values = measure_views(plain, seen) | {"loss": -loss, "embedding_rank": rank}
    parts = [
        measure_views(*_rows(plain, seen, part)) for part in torch.arange(len(plain)).chunk(FOLDS) if len(part) > 20
    ]
    errors = {name: _standard_error([part[name] for part in parts]) for name in (parts[0] if len(parts) > 1 else ())}
    return {"criteria": values, "standard_errors": errors, "images": len(plain)}


def _rows(plain: Tensor, seen: Sequence[Tensor], rows: Tensor) -> tuple[Tensor, list[Tensor]]:
    return plain[rows], [view[rows] for view in seen]


def _standard_error(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
