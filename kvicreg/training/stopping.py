"""Stopping in good order: ctrl-C, SIGTERM and a time limit end a training after the step at hand, and save it."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import lightning.pytorch as pl

from kvicreg.runs.durations import in_words
from kvicreg.training.checkpoint import Checkpoints

SIGNALS = {signal.SIGINT: "ctrl-C", signal.SIGTERM: "SIGTERM"}


class Stopped(Exception):
    """The training has been stopped between two steps.

    Args:
        where: what stopped it and where, in words.
        in_time: whether that was its time limit, as the user wanted.
    """

    def __init__(self, where: str, *, in_time: bool) -> None:
        super().__init__(where)
        self.in_time = in_time


class Stopping(pl.Callback):
    """Ends the training after `max_steps`; and by `Stopped`, with a checkpoint, after a signal or when time is up.

    The first process decides and saves; the others leave signals to it, and end with it. A second signal ends the
    training at once.

    Args:
        checkpoints: the callback that saves.
        seconds: the longest that the training may take from now on; None for any time.
        quiet: whether nothing may be printed.
    """

    def __init__(self, checkpoints: Checkpoints, *, seconds: float | None, quiet: bool) -> None:
        self.checkpoints, self.seconds, self.quiet = checkpoints, seconds, quiet
        self.started_at = time.monotonic()
        self.reason: str | None = None
        self.is_first = True
        self.handlers: dict[int, Any] = {}

    def on_train_start(self, trainer: pl.Trainer, module: Any) -> None:
        trainer.should_stop |= _is_last_step(trainer, module)
        self.is_first = trainer.is_global_zero
        if trainer.received_sigterm:  # by Lightning, a moment ago
            self.reason = SIGNALS[signal.SIGTERM]
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as ctrl-C is for a job in the background
                    self.handlers[number] = signal.signal(number, self._receive)

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        trainer.should_stop |= _is_last_step(trainer, module)  # Lightning's max_steps can't be resumed exactly
        if not self._is_due():
            return
        _, batch = divmod(module.batches_done, module.batches_per_epoch)
        is_whole_step = batch % module.settings.schedule.accumulate == 0
        if batch and is_whole_step and not _is_last_step(trainer, module):  # the end of an epoch is measured first
            self.checkpoints.save_now(trainer, module)
            raise self._stopped(trainer, module)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        if self._is_due() and not _is_last_step(trainer, module):
            raise self._stopped(trainer, module)

    def on_train_end(self, *_: Any) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        self.handlers = {}

    def on_exception(self, *_: Any) -> None:
        self.on_train_end()

    def _receive(self, number: int, frame: Any) -> None:
        if not self.is_first:
            return
        if self.reason is not None:
            self.on_train_end()
            raise KeyboardInterrupt
        self.reason = SIGNALS[signal.Signals(number)]
        if not self.quiet:  # print could be in the middle of a line
            os.write(2, b"\nStopping after this step, which will be saved. Once more stops at once.\n")

    def _is_due(self) -> bool:
        if self.reason is None and self.seconds is not None and time.monotonic() - self.started_at > self.seconds:
            self.reason = f"the time limit of {in_words(self.seconds)}"
        return self.is_first and self.reason is not None

    def _stopped(self, trainer: pl.Trainer, module: Any) -> Stopped:
        epoch = -(-module.batches_done // module.batches_per_epoch)
        where = f"epoch {epoch} of {module.settings.schedule.total_epochs}, step {trainer.global_step}"
        return Stopped(f"Stopped by {self.reason} at {where}; saved.", in_time=self.reason not in SIGNALS.values())


def _is_last_step(trainer: pl.Trainer, module: Any) -> bool:
    """Whether the training is over anyway."""
    schedule = module.settings.schedule
    is_last_batch = module.batches_done >= schedule.total_epochs * module.batches_per_epoch
    return is_last_batch or (schedule.max_steps is not None and trainer.global_step >= schedule.max_steps)
