"""train: from a config to a run folder. Read it top to bottom."""

from __future__ import annotations

import logging
import shutil
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from rich.console import Console
from torch import nn

from kvicreg.data import ImageData
from kvicreg.losses.terms import NotFiniteViews
from kvicreg.models import save_encoder
from kvicreg.storage import LOCK, working_on, write_atomically
from kvicreg.training.alarm import NotFinite
from kvicreg.training.build import build_data, build_groups, build_method, build_views, resolve
from kvicreg.training.checkpoint import ADVICE, AtomicCheckpointIO, Checkpoints
from kvicreg.training.config import TrainConfig, dump_config
from kvicreg.training.faults import Companions, clear_errors, is_lost_process, is_out_of_memory, strategy_of
from kvicreg.training.guard import StepGuard
from kvicreg.training.module import SelfSupervised
from kvicreg.training.monitor import FixedImages
from kvicreg.training.progress import ProgressLines
from kvicreg.training.record import Record


def train(
    config: TrainConfig | None = None,
    *,
    encoder: nn.Module | None = None,
    data: ImageData | None = None,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    callbacks: Sequence[pl.Callback] = (),
) -> Path:
    """Pretrain an encoder and leave a run folder; returns its path.

    Args:
        config: the settings.
        encoder: a module of your own, with `.feature_dim`, in place of the config's.
        data: images of your own, in place of the config's.
        resume: continue the run in the config's folder from its last checkpoint, to the same weights bit for bit.
        overwrite: replace the folder if it exists.
        quiet: print nothing.
        callbacks: Lightning callbacks of your own, called after ours.
    """
    calm_lightning()
    console = Console(quiet=quiet)
    config = config or TrainConfig()

    # images, and the views that show the network what should not matter
    data = build_data(config) if data is None else data
    views = build_views(config, data)
    config = resolve(config, data, views)

    # the model: encoder, projector, loss
    method = build_method(config, encoder)
    module = SelfSupervised(method, config, data=data, views=views, groups=build_groups(config, data))
    folder = config.folder

    # what is watched, measured, shown and kept, in this order at the end of every epoch
    guard = StepGuard(folder)
    fixed = FixedImages(data, views, count=config.spectrum_images, probe_count=config.probe_images, seed=config.seed)
    record = Record(folder, fixed, log_every=config.log_every, probe_every=config.probe_every)
    progress = ProgressLines(record, console)
    checkpoints = Checkpoints(folder, record, guard, steps=config.checkpoint_steps, minutes=config.checkpoint_minutes)

    with ExitStack() as held, clear_errors(config, console):
        trainer = build_trainer(
            config,
            callbacks=[guard, Companions(), record, progress, checkpoints, *callbacks],
            logger=_loggers(config, folder),
        )

        # nothing has been written so far
        if trainer.is_global_zero:
            if resume and not (folder / "config.yaml").is_file():
                raise FileNotFoundError(f"{folder} is not a run folder: it has no config.yaml to resume from")
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(working_on(folder, "kvicreg train"))
            _open_folder(folder, resume=resume, overwrite=overwrite)
            if not resume:
                write_atomically(folder / "config.yaml", dump_config(config).encode())
            (folder / "checkpoints").mkdir(exist_ok=True)
            console.print(_opening_lines(config, data, method), highlight=False, soft_wrap=True)
        last = folder / "checkpoints" / "last.ckpt"
        try:
            trainer.fit(module, ckpt_path=last if resume and last.is_file() else None)
        except NotFiniteViews as error:
            raise NotFinite(guard.sentence or str(error)) from error
        except (LookupError, AttributeError, TypeError, RuntimeError) as error:
            if not resume or guard.started or is_out_of_memory(error) or is_lost_process(error):
                raise
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"{last} does not fit this run ({type(error).__name__}: {reason}); {ADVICE}") from error
        if trainer.is_global_zero:
            save_encoder(
                method.encoder,
                folder,
                image_size=data.shape[1],
                mean=views.mean,
                std=views.std,
                data=data.name,
                projector=method.projector,
            )
            _tell_unreadable(data, folder, console)
    return folder


def build_trainer(config: TrainConfig, *, callbacks: Sequence[pl.Callback], logger: Any) -> pl.Trainer:
    """Lightning's Trainer for a config; nothing is written by itself."""
    return pl.Trainer(
        max_epochs=config.epochs,
        max_steps=config.max_steps or -1,
        accelerator=config.accelerator,
        devices=config.devices,
        num_nodes=config.nodes,
        strategy=strategy_of(config),
        precision=config.precision,  # type: ignore[arg-type]  # auto has been resolved
        accumulate_grad_batches=config.accumulate,
        gradient_clip_val=config.clip,
        deterministic=config.deterministic,
        sync_batchnorm=torch.cuda.is_available() and config.devices * config.nodes > 1,
        use_distributed_sampler=False,  # data.batches gives every process its slice
        callbacks=list(callbacks),
        plugins=[AtomicCheckpointIO()],
        logger=logger,
        default_root_dir=config.folder,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _open_folder(folder: Path, *, resume: bool, overwrite: bool) -> None:
    """Make the folder ready, or say why it can't be used; this process holds it."""
    if resume:
        for leftover in folder.glob("**/.*.tmp"):  # of a write that was cut short
            leftover.unlink()
    elif any(not path.name.startswith(".") for path in folder.iterdir()):
        if not overwrite:
            raise FileExistsError(
                f"{folder} exists. Continue it with --resume {folder}, replace it with --overwrite, "
                "or choose another --out"
            )
        if not (folder / "config.yaml").is_file():
            raise FileExistsError(f"{folder} is not a run folder, so --overwrite leaves it alone: choose another --out")
        # config.yaml goes last: cut short, what is left is still a run that --overwrite may replace
        for path in sorted(folder.iterdir(), key=lambda path: path.name == "config.yaml"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()


def _loggers(config: TrainConfig, folder: Path) -> list[Any]:
    from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger

    loggers: list[Any] = [TensorBoardLogger(folder, name="tensorboard", version="")]
    if config.wandb is not None:
        try:
            import wandb  # noqa: F401
        except ImportError as error:
            raise ImportError("--wandb needs the package wandb: pip install 'kvicreg[track]'") from error
        loggers.append(WandbLogger(project=config.wandb, name=folder.name, save_dir=folder))
    return loggers


def _opening_lines(config: TrainConfig, data: ImageData, method: nn.Module) -> str:
    c, h, w = data.shape
    size = sum(p.numel() for p in method.parameters())
    kernel = f" with the {config.kernel} kernel" if config.uses_kernel else ""
    lines = [
        f"{config.method}{kernel} on {data.name}: {len(data):,} images {c}x{h}x{w}; "
        f"{config.encoder}, {size:,} parameters; {config.epochs} epochs of batches of {config.batch_size}."
    ]
    if config.accumulate > 1:
        lines.append(
            f"Gradients of {config.accumulate} batches are averaged per step. Each batch has its own loss, over "
            f"its {config.batch_size} images: not the loss of one batch of {config.accumulate * config.batch_size}."
        )
    return "\n".join(lines)


def _tell_unreadable(data: ImageData, folder: Path, console: Console) -> None:
    if data.unreadable:
        names = [str(path) for path in data.unreadable]
        write_atomically(folder / "unreadable.txt", ("\n".join(names) + "\n").encode())
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        what = "1 file" if len(names) == 1 else f"{len(names):,} files"
        console.print(f"{what} could not be read ({shown}): see {folder / 'unreadable.txt'}", soft_wrap=True)


def calm_lightning() -> None:
    """Lightning's hints about loaders and loggers do not apply here; its errors do."""
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message=".*isinstance.treespec, LeafSpec.*")
