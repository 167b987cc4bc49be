"""train: from settings to a run folder. Read it top to bottom."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from lightning.pytorch.utilities.rank_zero import rank_zero_only
from packaging.version import InvalidVersion
from rich.console import Console
from torch import nn

from kvicreg.data import ImageData, Views
from kvicreg.losses.terms import NotFiniteViews
from kvicreg.models.weights import save_weights
from kvicreg.runs import RunFolder, Settings, save_encoder
from kvicreg.runs.durations import minutes
from kvicreg.storage import counted, message_of
from kvicreg.training.alarm import NotFinite
from kvicreg.training.build import build_groups, build_method, build_views, resolve
from kvicreg.training.checkpoint import AtomicCheckpointIO, Checkpoints, way_out
from kvicreg.training.continuing import check_given, continued, go_on
from kvicreg.training.faults import ProcessWatch, clear_errors, is_lost_process, is_out_of_memory, strategy_of
from kvicreg.training.guard import StepGuard
from kvicreg.training.loggers import build_logger
from kvicreg.training.module import SelfSupervised
from kvicreg.training.monitor import FixedImages
from kvicreg.training.opening import opening_lines
from kvicreg.training.plan import plan
from kvicreg.training.progress import ProgressLines
from kvicreg.training.record import Record
from kvicreg.training.stopping import Stopping


def train(
    settings: Settings | None = None,
    *,
    encoder: nn.Module | None = None,
    data: ImageData | None = None,
    time: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    callbacks: Sequence[pl.Callback] = (),
) -> Path:
    """Pretrain an encoder and leave a run folder; returns its path.

    Args:
        settings: what to train on what, and how.
        encoder: a module of your own, with `.feature_dim`, in place of the settings'; the config has its name alone.
        data: images of your own, in place of the settings'; the config has their name, number, shape and fingerprint.
        time: how long to train, such as "30m": the epochs follow from a few timed steps. Without it and `epochs`,
            images of one's own are trained on for as long as `training.plan.TIME` says.
        resume: continue the run in the settings' folder from its last checkpoint, to the same weights bit for bit. The
            settings may differ from the run's in `training.continuing.MAY_CHANGE`; what they leave open stays.
        overwrite: replace the folder if it exists.
        quiet: print nothing.
        callbacks: Lightning callbacks of your own, called after ours.

    Example:
        >>> small = Settings.of(max_steps=2, batch_size=32, width=0.25, projector_hidden=32, projector_outputs=32)
        >>> folder = train(small.replace(probe_images=0, out="runs/first"), quiet=True)
        >>> RunFolder(folder).is_finished
        True
    """
    calm_lightning()
    console = Console(quiet=quiet or getattr(rank_zero_only, "rank", 0) != 0)
    settings = settings or Settings()
    before = RunFolder.open(settings.folder) if resume else None
    settings, data, views = _read(settings, data, encoder, before, time, console)
    run = RunFolder(settings.folder)
    last = run.checkpoint("last") if resume and run.checkpoint("last").is_file() else None

    # the model: encoder, projector, loss
    method = build_method(settings, encoder, start=last is None)
    module = SelfSupervised(method, settings, data=data, views=views, groups=build_groups(settings, data))
    guard = StepGuard(run)

    with ExitStack() as stack, clear_errors(settings, console):
        trainer = build_trainer(
            settings,
            callbacks=_callbacks(settings, run, data, views, guard, callbacks, console),
            logger=build_logger(settings.record.logger, run),
        )
        if trainer.is_global_zero:  # nothing has been written so far
            run.path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(run.lock("kvicreg train"))
            lines = opening_lines(settings, data, views, method) + ([] if before is None else go_on(run, module))
            run.prepare(resume=resume, overwrite=overwrite)
            if not resume:
                run.write_settings(settings)
                if settings.model.has_start:
                    save_weights(method.encoder, run.start)
            run.checkpoint("last").parent.mkdir(exist_ok=True)
            console.print("\n".join(lines), highlight=False, soft_wrap=True)
        _fit(trainer, module, guard, last)
        if trainer.is_global_zero:
            _save(module, run, data, views)
            _tell_unreadable(data, run, console)
    return run.path


def _read(
    settings: Settings,
    data: ImageData | None,
    encoder: nn.Module | None,
    before: RunFolder | None,
    time: str | None,
    console: Console,
) -> tuple[Settings, ImageData, Views]:
    """Settings with nothing left open, images, and the views that show the network what should not matter.

    A run that goes on stays what it was `before`; for another, what is left open must fit the images and the machine.
    """
    if before is not None:
        settings = continued(before, settings.missing_from(before.settings))
    if data is None:
        console.print(f"Reading {settings.data.source} ...", highlight=False, soft_wrap=True)
    if before is not None:
        data = settings.data.load() if data is None else data
        views = build_views(settings, data)
    else:
        settings, data, views, _, lines = plan(settings, data, encoder=encoder, time=time, quiet=console.quiet)
        console.print("\n".join(lines), highlight=False, soft_wrap=True)
    settings = resolve(settings, data, views, encoder)
    if before is not None:
        check_given(before.settings, settings)
    return settings, data, views


def _callbacks(
    settings: Settings,
    run: RunFolder,
    data: ImageData,
    views: Views,
    guard: StepGuard,
    others: Sequence[pl.Callback],
    console: Console,
) -> list[pl.Callback]:
    """What guards, measures, shows and keeps a training, in this order at the end of every epoch, and then ends it."""
    recording, limit = settings.record, settings.schedule.time_limit
    fixed = FixedImages(
        data, views, count=recording.spectrum_images, probe_count=recording.probe_images, seed=settings.engine.seed
    )
    record = Record(run, fixed, log_every=recording.log_every, probe_every=recording.probe_every)
    checkpoints = Checkpoints(
        run, record, guard, steps=recording.checkpoint_steps, minutes=recording.checkpoint_minutes
    )
    stopping = Stopping(checkpoints, seconds=None if limit is None else 60 * minutes(limit), quiet=console.quiet)
    return [guard, ProcessWatch(), record, ProgressLines(record, console), checkpoints, *others, stopping]


def _fit(trainer: pl.Trainer, module: SelfSupervised, guard: StepGuard, checkpoint: Path | None) -> None:
    """Train, from a checkpoint where there is one; what goes wrong is told in a sentence."""
    try:
        trainer.fit(module, ckpt_path=checkpoint)
    except NotFiniteViews as error:
        raise NotFinite(guard.sentence or str(error)) from error
    except (LookupError, AttributeError, TypeError, RuntimeError, InvalidVersion) as error:
        if checkpoint is None or guard.started or is_out_of_memory(error) or is_lost_process(error):
            raise
        what = f"{checkpoint} does not fit this run ({type(error).__name__}: {message_of(error)})"
        raise ValueError(f"{what}; {way_out(checkpoint)}") from error


def build_trainer(settings: Settings, *, callbacks: Sequence[pl.Callback], logger: Any) -> pl.Trainer:
    """Lightning's Trainer for the settings; nothing is written by itself."""
    engine, schedule = settings.engine, settings.schedule
    try:
        return pl.Trainer(
            max_epochs=schedule.total_epochs,
            accelerator=engine.accelerator,
            devices=engine.devices,
            num_nodes=engine.nodes,
            strategy=strategy_of(settings),
            precision=engine.precision,  # type: ignore[arg-type]  # auto has been resolved
            accumulate_grad_batches=schedule.accumulate,
            gradient_clip_val=settings.optimizer.clip,
            deterministic=engine.deterministic,
            sync_batchnorm=torch.cuda.is_available() and engine.processes > 1,
            use_distributed_sampler=False,  # data.batches gives every process its slice
            callbacks=list(callbacks),
            plugins=[AtomicCheckpointIO()],
            logger=logger,
            default_root_dir=settings.folder,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    except (ValueError, MisconfigurationException) as error:  # such as an accelerator that is not there
        raise ValueError(message_of(error)) from error


def _save(module: SelfSupervised, run: RunFolder, data: ImageData, views: Views) -> None:
    """Leave the encoder, with what its images were."""
    save_encoder(
        module.encoder,
        run.path,
        image_size=data.shape[1],
        mean=views.mean,
        std=views.std,
        data=data.name,
        projector=module.projector,
        intensity=None if data.intensity is None else data.intensity.text,
        fit=data.fit,
    )


def _tell_unreadable(data: ImageData, run: RunFolder, console: Console) -> None:
    if data.unreadable:
        names = [str(path) for path in data.unreadable]
        path = run.write_unreadable(names)
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        console.print(f"{counted(len(names), 'file')} could not be read ({shown}): see {path}", soft_wrap=True)


def calm_lightning() -> None:
    """Lightning's hints about loaders and loggers do not apply here; its errors do."""
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
