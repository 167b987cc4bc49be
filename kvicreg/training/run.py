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
from rich.console import Console
from torch import nn

from kvicreg.data import ImageData, Views
from kvicreg.losses.terms import NotFiniteViews
from kvicreg.methods import Method
from kvicreg.models.encoder import feature_dim
from kvicreg.models.weights import save_weights
from kvicreg.runs import RunFolder, Settings, save_encoder
from kvicreg.runs.durations import minutes
from kvicreg.training.alarm import NotFinite
from kvicreg.training.build import build_groups, build_method, build_views, resolve
from kvicreg.training.checkpoint import AtomicCheckpointIO, Checkpoints, way_out
from kvicreg.training.continuing import check_given, continued, go_on
from kvicreg.training.faults import ProcessWatch, clear_errors, is_lost_process, is_out_of_memory, strategy_of
from kvicreg.training.guard import StepGuard
from kvicreg.training.loggers import build_logger
from kvicreg.training.module import SelfSupervised
from kvicreg.training.monitor import FixedImages
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
    if resume:
        run = RunFolder.open(settings.folder)
        settings = continued(run, settings.beyond(run.settings))

    # images, and the views that show the network what should not matter
    if data is None:
        console.print(f"Reading {settings.data.source} ...", highlight=False, soft_wrap=True)
    if resume:
        data = settings.data.load() if data is None else data
        views = build_views(settings, data)
    else:  # what is left open must fit the images and the machine
        settings, data, views, _, lines = plan(settings, data, encoder=encoder, time=time)
        console.print("\n".join(lines), highlight=False, soft_wrap=True)
    settings = resolve(settings, data, views, encoder)
    if resume:
        check_given(run.settings, settings)

    # the model: encoder, projector, loss
    has_weights = resume and run.checkpoint("last").is_file()
    method = build_method(settings, encoder, start=not has_weights)
    module = SelfSupervised(method, settings, data=data, views=views, groups=build_groups(settings, data))
    run = RunFolder(settings.folder)

    # what is watched, measured, shown and kept, in this order at the end of every epoch
    recording = settings.record
    guard = StepGuard(run)
    fixed = FixedImages(
        data, views, count=recording.spectrum_images, probe_count=recording.probe_images, seed=settings.engine.seed
    )
    record = Record(run, fixed, log_every=recording.log_every, probe_every=recording.probe_every)
    progress = ProgressLines(record, console)
    checkpoints = Checkpoints(
        run, record, guard, steps=recording.checkpoint_steps, minutes=recording.checkpoint_minutes
    )
    limit = settings.schedule.time_limit
    stopping = Stopping(checkpoints, seconds=None if limit is None else 60 * minutes(limit), quiet=quiet)

    with ExitStack() as stack, clear_errors(settings, console):
        trainer = build_trainer(
            settings,
            callbacks=[guard, ProcessWatch(), record, progress, checkpoints, *callbacks, stopping],
            logger=build_logger(settings.record.logger, run),
        )

        # nothing has been written so far
        if trainer.is_global_zero:
            run.path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(run.lock("kvicreg train"))
            lines = _opening_lines(settings, data, views, method)
            if resume:
                lines += go_on(run, module)
            run.prepare(resume=resume, overwrite=overwrite)
            if not resume:
                run.write_settings(settings)
                if settings.model.has_start:
                    save_weights(method.encoder, run.start)
            console.print("\n".join(lines), highlight=False, soft_wrap=True)
        _fit(trainer, module, guard, run.checkpoint("last") if resume else None)
        if trainer.is_global_zero:
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
            _tell_unreadable(data, run, console)
    return run.path


def _fit(trainer: pl.Trainer, module: SelfSupervised, guard: StepGuard, checkpoint: Path | None) -> None:
    """Train, from a checkpoint where there is one; what goes wrong is told in a sentence."""
    try:
        trainer.fit(module, ckpt_path=checkpoint if checkpoint is not None and checkpoint.is_file() else None)
    except NotFiniteViews as error:
        raise NotFinite(guard.sentence or str(error)) from error
    except (LookupError, AttributeError, TypeError, RuntimeError) as error:
        if checkpoint is None or guard.started or is_out_of_memory(error) or is_lost_process(error):
            raise
        reason = " ".join(str(error).split())[:200]
        what = f"{checkpoint} does not fit this run ({type(error).__name__}: {reason})"
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
            sync_batchnorm=torch.cuda.is_available() and engine.devices * engine.nodes > 1,
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
        raise ValueError(" ".join(str(error).split())) from error


FEW = 1000


def _opening_lines(settings: Settings, data: ImageData, views: Views, method: Method) -> list[str]:
    schedule, size = settings.schedule, settings.schedule.batch_size_for(len(data))
    c, h, w = data.shape
    encoder, projector = (sum(p.numel() for p in part.parameters()) for part in (method.encoder, method.projector))
    lines = [
        f"{settings.method.describe()} on {data.name}: {len(data):,} images {c}x{h}x{w}; "
        f"{settings.model.encoder.choice}, {encoder:,} parameters, features of width {feature_dim(method.encoder):,} "
        f"(projector: {projector:,} more); "
        f"{schedule.total_epochs} epochs of batches of {size}."
    ]
    if len(data) < FEW:
        lines.append(
            f"{len(data):,} images are few: expect an encoder that tells these apart and knows little beyond them. "
            "kvicreg evaluate has the untrained encoder beside it; --init starts from a run on more images."
        )
    lines += getattr(method.encoder, "notes", [])
    if settings.model.has_start:
        lines.append(f"Images are normalized by the mean and deviation {settings.model.normalize}.")
    if schedule.accumulate > 1:
        lines.append(
            f"Gradients of {schedule.accumulate} batches are averaged per step. Each batch has its own loss, over "
            f"its {size} images: not the loss of one batch of {schedule.accumulate * size}."
        )
    lines += data.notes
    stored = data.for_views().shape[1]
    if stored > h or data.cache_bytes:
        lines.append(
            f"Views are cropped from {stored}x{stored} pixels of each image; decoded ones take up to "
            f"{data.cache_bytes / 1e6:,.0f} MB (cache_mb) in each process."
        )
    if views.skipped:
        lines.append(f"Views of {c} channels leave out: {', '.join(views.skipped)}.")
    return lines


def _tell_unreadable(data: ImageData, run: RunFolder, console: Console) -> None:
    if data.unreadable:
        names = [str(path) for path in data.unreadable]
        path = run.write_unreadable(names)
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        what = "1 file" if len(names) == 1 else f"{len(names):,} files"
        console.print(f"{what} could not be read ({shown}): see {path}", soft_wrap=True)


def calm_lightning() -> None:
    """Lightning's hints about loaders and loggers do not apply here; its errors do."""
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
