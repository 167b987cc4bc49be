"""What may go wrong around a training, told in a sentence: memory, processes that die or hang, ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from rich.console import Console

from kvicreg.runs import Settings
from kvicreg.storage import message_of, quoted
from kvicreg.training.stopping import Stopped


def strategy_of(settings: Settings) -> Any:
    """The strategy of the settings, with its time limit where processes wait for each other."""
    engine = settings.engine
    if engine.processes > 1 and engine.strategy in ("auto", "ddp"):
        return DDPStrategy(timeout=timedelta(minutes=engine.timeout_minutes))
    return engine.strategy


@contextmanager
def clear_errors(settings: Settings, console: Console) -> Iterator[None]:
    """Turn what Lightning, torch and the system raise into sentences that say how to go on."""
    again, engine = f"kvicreg train --resume {quoted(settings.folder)}", settings.engine
    go_on = f"Continue with: {again}"
    try:
        yield
    except MisconfigurationException as error:  # such as an accelerator that is not there
        raise ValueError(message_of(error)) from error
    except SystemExit as stop:  # Lightning's answer to ctrl-C
        if not isinstance(stop.__context__, KeyboardInterrupt):
            raise
        console.print(
            f"Stopped at once, nothing saved since the last checkpoint. Continue with: {again}", soft_wrap=True
        )
        raise KeyboardInterrupt from None
    except Stopped as stop:
        console.print(f"{stop} {go_on}", soft_wrap=True, highlight=False)
        if not stop.in_time:
            raise KeyboardInterrupt from None
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise MemoryError(
                f"out of memory in a batch of {settings.schedule.batch_size} images. Try a smaller batch_size or "
                "image_size, a narrower projector, precision bf16-mixed, or approximation random-fourier; the last "
                "checkpoint is whole"
            ) from error
        if engine.processes > 1 and is_lost_process(error):
            raise ConnectionError(
                "another process of this training has ended, or has not answered for "
                f"{engine.timeout_minutes:g} minutes (timeout_minutes). Its own message, if any, is above. "
                f"Continue from the last checkpoint, with any number of processes: {again}"
            ) from error
        raise


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a device or on the host."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(sign in str(error) for sign in ("can't allocate memory", "not enough memory", "out of memory"))


def is_lost_process(error: BaseException) -> bool:
    """Whether a collective failed because of another process."""
    if isinstance(error, torch.distributed.DistError):
        return True
    message = str(error).lower()
    signs = ("gloo", "nccl", "connection closed by peer", "connection reset by peer", "pair closure")
    return any(sign in message for sign in signs)


class ProcessWatch(pl.Callback):
    """The first process of a machine watches those it has started: if one dies, it says so and ends the others.

    A collective over NCCL does not notice by itself that another process has died.
    """

    grace = 2.0  # seconds for this process to end with a sentence of its own

    def setup(self, trainer: pl.Trainer, *_: Any, **__: Any) -> None:
        started = getattr(trainer.strategy.launcher, "procs", [])
        if started:
            self.watching = True
            threading.Thread(target=self._watch, args=(list(started),), daemon=True, name="process-watch").start()

    def teardown(self, trainer: pl.Trainer, *_: Any, **__: Any) -> None:
        self.watching = False

    def on_exception(self, trainer: pl.Trainer, module: Any, exception: BaseException) -> None:
        """The others may hang in a collective that this process will never join."""
        for process in getattr(trainer.strategy.launcher, "procs", []):
            process.send_signal(signal.SIGKILL)

    def _watch(self, started: list[Any]) -> None:
        while self.watching:
            codes = [process.poll() for process in started]
            if any(codes):
                time.sleep(self.grace)
                if not self.watching:
                    return
                for process in started:
                    process.send_signal(signal.SIGKILL)
                ended = next(code for code in codes if code)
                how = f"was killed by signal {-ended}" if ended < 0 else f"failed with exit code {ended}"
                print(f"kvicreg train: a process of this training {how}; the others end too.", file=sys.stderr)
                sys.stderr.flush()
                os._exit(1)
            time.sleep(0.2)
