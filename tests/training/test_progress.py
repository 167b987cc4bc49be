"""What is printed while a run trains, to the letter, by a clock that is set by hand."""

from __future__ import annotations

import io
import logging
import math
from types import SimpleNamespace

import pytest
from rich.console import Console

from kvicreg.runs import Settings
from kvicreg.training import progress
from kvicreg.training.progress import ProgressLines, describe

TERMS = {"loss": 1.5, "invariance": 0.25, "variance": 1 / 3, "covariance": 12.0}
LIVE = TERMS | {"effective_rank": 12.34, "images_per_second": 1234.5}


class Paper(list):
    """A console that keeps the lines and how they were to be shown."""

    def __init__(self, *, is_terminal=False, quiet=False):
        self.is_terminal, self.quiet = is_terminal, quiet

    def print(self, line, *, highlight, soft_wrap, style=None):
        assert (highlight, soft_wrap) == (False, True), "paths and numbers are left as they are"
        self.append(line if style is None else (line, style))


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture
def threads(monkeypatch):
    """The threads that would have been started."""
    started = []

    def thread(**given):
        return SimpleNamespace(start=lambda: started.append(given))

    monkeypatch.setattr(progress.threading, "Thread", thread)
    return started


def training(done=0, step=0, is_first=True, **given):
    """A trainer and a module of 4 batches an epoch."""
    settings = Settings.of(**({"epochs": 3} | given))
    module = SimpleNamespace(batches_done=done, batches_per_epoch=4, settings=settings)
    return SimpleNamespace(global_step=step, is_global_zero=is_first), module


def lines(console=None, live=LIVE, rows=()):
    return ProgressLines(SimpleNamespace(live=live, rows=list(rows)), Paper() if console is None else console)


def test_a_line_tells_step_epoch_terms_speed_and_the_time_left(clock, threads):
    shown = lines()
    trainer, module = training(done=4, step=4)
    shown.on_train_start(trainer, module)
    assert shown.step == "step 5 of 12"
    for seconds, done in ((10, 5), (10, 6), (10.5, 7), (20, 8), (20.5, 9)):
        clock.now += seconds
        module.batches_done = trainer.global_step = done
        shown.on_train_batch_end(trainer, module)
        assert shown.step == f"step {done + 1} of 12"
    terms = "loss 1.5  invariance 0.25  variance 0.3333  covariance 12  rank 12.3  1,234 images/s"
    assert shown.console == [
        f"step 5 of 12 (epoch 2 of 3)  {terms}  70 seconds left",  # the first, 10 seconds for a batch
        f"step 7 of 12 (epoch 2 of 3)  {terms}  51 seconds left",  # more than 20 seconds later
        f"step 9 of 12 (epoch 3 of 3)  {terms}  43 seconds left",
    ]


@pytest.mark.parametrize(
    ("given", "step", "left"),
    [
        ({}, "step 2 of 12", "50 seconds"),
        ({"max_steps": 5}, "step 2 of 5", "15 seconds"),
        ({"max_steps": 50}, "step 2 of 12", "50 seconds"),
        ({"accumulate": 3}, "step 2 of 6", "50 seconds"),  # an epoch's second step has one batch
        ({"accumulate": 3, "max_steps": 3}, "step 2 of 3", "35 seconds"),
        ({"max_steps": 1}, "step 2 of 1", "0 seconds"),
    ],
)
def test_steps_and_the_time_left_end_where_the_training_does(clock, threads, given, step, left):
    shown = lines(live={})
    trainer, module = training(**given)
    shown.on_train_start(trainer, module)
    clock.now += 10
    module.batches_done = trainer.global_step = 2
    assert shown._line(trainer, module) == f"{step} (epoch 1 of 3)    {left} left"


@pytest.mark.parametrize(("done", "epoch"), [(1, 1), (4, 1), (5, 2), (12, 3)])
def test_a_batch_belongs_to_its_epoch(clock, threads, done, epoch):
    shown = lines()
    shown.on_train_start(*training())
    assert f"(epoch {epoch} of 3)" in shown._line(*training(done, done))


def test_a_long_step_is_told_and_a_new_one_counts_from_its_beginning(clock, threads):
    shown = lines()
    shown.on_train_start(*training())
    waits = []

    def wait(seconds):
        waits.append(seconds)
        clock.now += 16
        if len(waits) == 3:
            shown.step = "step 2 of 12"
        return len(waits) == 6

    shown.ended = SimpleNamespace(wait=wait)
    shown._break_silence()
    assert shown.console == ["step 1 of 12: 32 seconds so far", "step 2 of 12: 16 seconds so far"]
    assert waits == [1.0] * 6


def test_only_where_there_is_a_log_silence_is_broken(clock, threads):
    shown = lines()
    shown.ended.set()
    shown.on_train_start(*training())
    assert threads == [{"target": shown._break_silence, "daemon": True, "name": "progress"}]
    assert not shown.ended.is_set()
    assert shown.printed_at == 1000
    shown.on_train_end()
    assert shown.ended.is_set()
    for console, is_first in ((Paper(is_terminal=False, quiet=True), True), (Paper(), False)):
        other = lines(console)
        other.on_train_start(*training(is_first=is_first))
        other.on_exception()
    assert len(threads) == 1


def test_other_processes_print_nothing(clock, threads):
    shown = lines(rows=[{"epoch": 1}])
    trainer, module = training(is_first=False)
    shown.on_train_start(trainer, module)
    module.batches_done = 1
    shown.on_train_batch_end(trainer, module)
    shown.on_train_epoch_end(trainer, module)
    assert shown.console == []
    assert shown.notes not in logging.getLogger("kvicreg").handlers


def test_a_terminal_has_a_bar(clock, threads):
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    shown = lines(console)
    trainer, module = training(done=4, step=4)
    shown.on_train_start(trainer, module)
    (task,) = shown.bar.tasks
    assert (task.total, task.completed, task.fields) == (12, 4, {"epoch": "", "state": ""})
    assert shown.bar.live.transient
    assert shown.bar.live.refresh_per_second == 2
    module.batches_done = 8
    shown.on_train_batch_end(trainer, module)
    (task,) = shown.bar.tasks
    state = "inv 0.25 var 0.333 cov 12 rank 12 1,234/s"
    assert (task.completed, task.fields) == (8, {"epoch": "2/3", "state": state})
    with console.capture() as capture:
        console.print(shown.bar.get_renderable())
    assert "epoch 2/3 " in capture.get()
    assert state in capture.get()
    shown.on_train_end()
    assert not shown.bar.live.is_started
    assert threads == []


ROW = TERMS | {
    "epoch": 2, "effective_rank": 20.0, "effective_rank_bound": 31.0, "images_per_second": 900.0,
    "probe_accuracy": 0.5, "knn_accuracy": 0.256, "warning": "",
}  # fmt: skip
TOLD = "loss 1.5  invariance 0.25  variance 0.3333  covariance 12  rank 20.0/31  900 images/s"


def test_an_epoch_has_a_line_with_what_was_measured(clock):
    shown = lines(rows=[ROW])
    shown.on_train_epoch_end(*training())
    shown.record.rows.append(ROW | {"epoch": 13, "probe_accuracy": math.nan})
    shown.on_train_epoch_end(*training(epochs=200))
    assert shown.console == [f"epoch   2/3  {TOLD}  probe 50.0%  k-NN 25.6%", f"epoch  13/200  {TOLD}"]
    assert shown.printed_at == 1000


def test_a_warning_is_told_when_it_is_new(clock):
    shown = lines()
    for warning in ("a", "a", "", "a", "b"):
        shown.record.rows.append(ROW | {"warning": warning})
        shown.on_train_epoch_end(*training())
    told = [line for line in shown.console if isinstance(line, tuple)]
    assert told == [(f"Warning: {warning}", "bold red") for warning in ("a", "a", "b")]
    assert len(shown.console) == 8


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, ""),
        ({"loss": math.nan, "variance": 2.0}, "variance 2"),
        ({"loss": 1.0, "effective_rank": 3.04}, "loss 1  rank 3.0"),
        ({"effective_rank": 3.06, "effective_rank_bound": 7.0}, "rank 3.1/7"),
        ({"images_per_second": 1e6}, "1,000,000 images/s"),
    ],
)
def test_only_what_is_known_is_described(values, words):
    assert describe(values) == words


def test_notes_of_the_package_are_shown_while_it_trains(clock, threads):
    logger = logging.getLogger("kvicreg")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        shown = lines()
        shown.on_train_start(*training())
        logging.getLogger("kvicreg.part").info("chosen: %s", "eigh")
        logging.getLogger("kvicreg.part").debug("a detail")
        shown.on_train_end()
        logging.getLogger("kvicreg.part").info("nobody listens")
        assert shown.console == ["chosen: eigh"]
        assert logger.level == logging.ERROR
        assert shown.notes.level == logging.INFO
    finally:
        logger.setLevel(before)
