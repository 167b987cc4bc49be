"""Checkpoints: written whole or not at all, read without pickle's powers."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from kvicreg.runs import RunFolder
from kvicreg.storage import write_atomically
from kvicreg.training.guard import StepGuard
from kvicreg.training.record import Record

NEEDED = ("state_dict", "optimizer_states", "callbacks", "batches_done", "pytorch-lightning_version")


def way_out(checkpoint: Path) -> str:
    """How to go on where a run's last checkpoint can't be used."""
    best = RunFolder(checkpoint.parents[1]).checkpoint("best")
    return f"copy {best.name} over it to go on from the best epoch, or begin again with --overwrite"


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes to a temporary file, syncs it to disk and renames it; loads with weights_only=True."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        write_atomically(Path(path), buffer.getvalue())

    def load_checkpoint(self, path: Any, map_location: Any = "cpu", weights_only: Any = True) -> dict[str, Any]:
        try:
            checkpoint: dict[str, Any] = torch.load(path, map_location=map_location or "cpu", weights_only=True)
        except OSError:
            raise
        except Exception as error:  # torch, zipfile and pickle raise whatever the damage makes them stumble over
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise ValueError(f"{path} is damaged ({reason[:200]}); {way_out(Path(path))}") from error
        missing = [key for key in NEEDED if not isinstance(checkpoint, dict) or key not in checkpoint]
        if missing:
            raise ValueError(
                f"{path} was not written by this version of kvicreg: it lacks {missing[0]}; {way_out(Path(path))}"
            )
        if any(not isinstance(checkpoint.get(name), int) for name in ("batches_done", "global_step")):
            raise ValueError(f"{path} is damaged (it does not say how far it got); {way_out(Path(path))}")
        return checkpoint


class Checkpoints(pl.Callback):
    """Keeps the last checkpoint, from which a run continues exactly, and the best.

    Best is the highest online probe accuracy (on training images) where there are labels, else the highest agreement of
    two views (CKA), which has predicted probes best.

    Args:
        run: where checkpoints are kept.
        record: the callback that has measured the epoch.
        guard: the callback that says whether the weights are worth keeping.
        steps: batches between checkpoints within an epoch; None for none.
        minutes: longest time between checkpoints.
    """

    def __init__(self, run: RunFolder, record: Record, guard: StepGuard, *, steps: int | None, minutes: float) -> None:
        self.run, self.record, self.guard = run, record, guard
        self.steps, self.minutes = steps, minutes
        self.best = float("-inf")
        self.saved_at, self.due = time.monotonic(), False

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        batches = module.batches_done
        if batches % int(trainer.num_training_batches) == 0:
            return  # the end of the epoch saves, after it has been measured
        self.due |= self.steps is not None and batches % self.steps == 0
        self.due |= time.monotonic() - self.saved_at > 60 * self.minutes
        self.due |= trainer.global_step == module.settings.schedule.max_steps  # more may be wanted later
        is_whole_step = batches % int(trainer.num_training_batches) % module.settings.schedule.accumulate == 0
        if self.due and is_whole_step and trainer.is_global_zero:
            self.save_now(trainer, module)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        score = self.record.score()
        if score is not None and score > self.best:
            self.best = score
            self._save(trainer, "best")
        if module.batches_done % int(trainer.num_training_batches) == 0:  # else max_steps ended it, and has saved it
            self._save(trainer, "last")

    def save_now(self, trainer: pl.Trainer, module: Any) -> None:
        """Save the last checkpoint between two steps, by the first process alone.

        Every process holds all weights, so none has to wait for the others, whose clocks and signals differ.
        """
        self.guard.check_weights(trainer, module)  # never replace a good checkpoint by a broken one
        content = trainer._checkpoint_connector.dump_checkpoint()  # save_checkpoint, without its barrier
        trainer.strategy.save_checkpoint(content, self.run.checkpoint("last"))
        self.saved_at, self.due = time.monotonic(), False

    def _save(self, trainer: pl.Trainer, which: Literal["last", "best"]) -> None:
        trainer.save_checkpoint(self.run.checkpoint(which))
        self.saved_at, self.due = time.monotonic(), False

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best = state_dict["best"]
