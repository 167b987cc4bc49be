"""What is seen while a run trains: a bar or lines within the epoch, a line per epoch, and the alarm's sentences."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import lightning.pytorch as pl
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from kvicreg.runs.durations import in_words
from kvicreg.training.record import Record

TERMS = ("loss", "invariance", "variance", "covariance")
EVERY, SILENCE = 20.0, 30.0
"""Seconds between lines within an epoch, and after which a step that is still under way is told."""


class ProgressLines(pl.Callback):
    """Shows what `Record` knows: a bar on a terminal, and elsewhere a line at least every `SILENCE` seconds."""

    def __init__(self, record: Record, console: Console) -> None:
        self.record, self.console = record, console
        self.bar: Progress | None = None
        self.last_warning = ""
        self.printed_at = 0.0
        self.step = ""
        self.ended = threading.Event()
        self.notes = _Notes(self._print)

    def on_train_start(self, trainer: pl.Trainer, module: Any) -> None:
        self.started_at, self.start = time.monotonic(), module.batches_done
        self.step = self._step(trainer, module, trainer.global_step + 1)
        if trainer.is_global_zero:
            self.notes.listen()
        if trainer.is_global_zero and not self.console.is_terminal and not self.console.quiet:
            self.printed_at = time.monotonic()
            self.ended.clear()
            threading.Thread(target=self._break_silence, daemon=True, name="progress").start()
        if trainer.is_global_zero and self.console.is_terminal:
            self.bar = Progress(
                TextColumn("epoch {task.fields[epoch]}"),
                BarColumn(bar_width=8),
                TextColumn("{task.fields[state]}"),
                TimeRemainingColumn(compact=True),
                console=self.console,
                refresh_per_second=2,
                transient=True,
            )
            total = module.settings.schedule.total_epochs * module.batches_per_epoch
            self.task = self.bar.add_task("", total=total, completed=module.batches_done, epoch="", state="")
            self.bar.start()

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        if self.bar is not None:
            done = module.batches_done
            epoch = f"{1 + (done - 1) // module.batches_per_epoch}/{module.settings.schedule.total_epochs}"
            self.bar.update(self.task, completed=done, epoch=epoch, state=abridge(self.record.live))
        elif trainer.is_global_zero and not self.console.is_terminal:
            is_first = module.batches_done == self.start + 1
            if is_first or time.monotonic() - self.printed_at > EVERY:
                self._print(self._line(trainer, module))
            self.step = self._step(trainer, module, trainer.global_step + 1)

    def _line(self, trainer: pl.Trainer, module: Any) -> str:
        """Step of steps, terms, speed and the time left."""
        done, schedule = module.batches_done, module.settings.schedule
        epoch = f"(epoch {1 + (done - 1) // module.batches_per_epoch} of {schedule.total_epochs})"
        seconds = (time.monotonic() - self.started_at) / (done - self.start)
        batches = min(
            schedule.total_epochs * module.batches_per_epoch, (schedule.max_steps or 10**12) * schedule.accumulate
        )
        left = in_words(seconds * max(0, batches - done))
        return f"{self._step(trainer, module, trainer.global_step)} {epoch}  {describe(self.record.live)}  {left} left"

    def _step(self, trainer: pl.Trainer, module: Any, step: int) -> str:
        schedule = module.settings.schedule
        steps = schedule.total_epochs * -(-module.batches_per_epoch // schedule.accumulate)
        return f"step {step} of {min(steps, schedule.max_steps or steps)}"

    def _break_silence(self) -> None:
        """Say from time to time that a step, or the measurement of an epoch, is still under way."""
        began, step = time.monotonic(), self.step
        while not self.ended.wait(min(1.0, SILENCE / 4)):
            if self.step != step:
                began, step = time.monotonic(), self.step
            if time.monotonic() - self.printed_at > SILENCE:
                self._print(f"{step}: {time.monotonic() - began:.0f} seconds so far")

    def _print(self, line: str) -> None:
        self.printed_at = time.monotonic()
        self.console.print(line, highlight=False, soft_wrap=True)

    def on_train_epoch_end(self, trainer: pl.Trainer, module: Any) -> None:
        if not trainer.is_global_zero:
            return
        row = self.record.rows[-1]
        line = f"epoch {row['epoch']:>3}/{module.settings.schedule.total_epochs}  {describe(row)}"
        if row["probe_accuracy"] == row["probe_accuracy"]:
            line += f"  probe {row['probe_accuracy']:.1%}  k-NN {row['knn_accuracy']:.1%}"
        self._print(line)
        if row["warning"] and row["warning"] != self.last_warning:
            self.console.print(f"Warning: {row['warning']}", style="bold red", highlight=False, soft_wrap=True)
        self.last_warning = row["warning"]

    def on_train_end(self, *_: Any) -> None:
        self.ended.set()
        self.notes.close()
        if self.bar is not None:
            self.bar.stop()

    def on_exception(self, *_: Any) -> None:
        self.on_train_end()


class _Notes(logging.Handler):
    """Shows what parts of the package tell by `logging`, such as the solver that the loss has chosen."""

    def __init__(self, show: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self.show, self.logger = show, logging.getLogger("kvicreg")

    def listen(self) -> None:
        self.level_before = self.logger.level
        self.logger.setLevel(logging.INFO)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.show(record.getMessage())

    def close(self) -> None:
        if self in self.logger.handlers:
            self.logger.removeHandler(self)
            self.logger.setLevel(self.level_before)
        super().close()


def abridge(values: dict[str, float]) -> str:
    """What fits beside a bar in 80 columns."""
    if not values:
        return ""
    short = {"invariance": "inv", "variance": "var", "covariance": "cov"}
    parts = [f"{short[name]} {values[name]:.3g}" for name in short if name in values] or [f"loss {values['loss']:.3g}"]
    return " ".join([*parts, f"rank {values['effective_rank']:.0f}", f"{values['images_per_second']:,.0f}/s"])


def describe(values: dict[str, Any]) -> str:
    """The terms, the effective rank and the speed on one line."""
    parts = [f"{name} {values[name]:.4g}" for name in TERMS if name in values and values[name] == values[name]]
    if "effective_rank" in values:
        bound = f"/{values['effective_rank_bound']:.0f}" if "effective_rank_bound" in values else ""
        parts.append(f"rank {values['effective_rank']:.1f}{bound}")
    if "images_per_second" in values:
        parts.append(f"{values['images_per_second']:,.0f} images/s")
    return "  ".join(parts)
