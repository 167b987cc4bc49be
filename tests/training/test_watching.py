"""What watches a training: the guard of the loss, the watch over other processes, the points of the log."""

from __future__ import annotations

import logging
import os
import signal
import time
from types import SimpleNamespace

import pytest
import torch
from poisoned import Poisoned

from kvicreg.runs import RunFolder
from kvicreg.training import record, train
from kvicreg.training.alarm import NotFinite
from kvicreg.training.faults import ProcessWatch, is_lost_process
from kvicreg.training.guard import StepGuard
from kvicreg.training.replay import replay
from kvicreg.training.run import calm_lightning


def test_the_guard_stops_a_loss_that_is_not_finite_before_its_gradient(tmp_path, tiny_config):
    guard = StepGuard(RunFolder(tmp_path))
    module = SimpleNamespace(batches_done=4, batches_per_epoch=3, settings=tiny_config)
    trainer = SimpleNamespace(global_step=3, global_rank=0)
    guard.on_train_batch_start(trainer, module, (torch.zeros(2, 1, 4, 4), torch.arange(2), None), 0)
    guard.on_before_backward(trainer, module, torch.tensor(1.0))
    with pytest.raises(NotFinite, match=r"the loss is inf at batch 3 \(step 3, epoch 2\)"):
        guard.on_before_backward(trainer, module, torch.tensor(torch.inf))


def test_a_replay_begins_at_the_last_checkpoint(tiny_config, tiny_data, tmp_path):
    config = tiny_config.replace(checkpoint_steps=1)
    with pytest.raises(NotFinite):
        train(config, encoder=Poisoned(9, lambda x: x * torch.nan), data=tiny_data, quiet=True)
    found = replay(tmp_path / "run", encoder=Poisoned(1, lambda x: x * torch.nan), data=tiny_data, quiet=True)
    assert (found["from_batch"], found["batch"], found["loss"]) == (4, 4, "nan")


def test_a_mistake_in_the_encoder_is_not_blamed_on_the_checkpoint(tiny_config, tiny_data):
    def fail(x):
        raise TypeError("mine")

    config = tiny_config.replace(checkpoint_steps=1)
    for resume, calls in ((False, 3), (True, 1)):
        with pytest.raises(TypeError, match="mine"):
            train(config, encoder=Poisoned(calls, fail), data=tiny_data, quiet=True, resume=resume)


@pytest.mark.parametrize(
    ("message", "lost"),
    [("[Gloo] timed out", True), ("NCCL error", True), ("Connection reset by peer", True), ("wrong shape", False)],
)
def test_another_processs_end_is_told_from_a_mistake(message, lost):
    assert is_lost_process(RuntimeError(message)) == lost


@pytest.mark.parametrize("ends_in_time", [True, False])
def test_when_a_process_dies_the_others_are_ended_unless_this_one_ends_by_itself(ends_in_time, monkeypatch, capsys):
    class Process:
        def __init__(self, code):
            self.code, self.signals = code, []

        def poll(self):
            return self.code

        def send_signal(self, number):
            self.signals.append(number)

    watch, processes = ProcessWatch(), [Process(None), Process(-9)]
    watch.watching = True

    def sleep(seconds):
        assert seconds == watch.grace
        watch.watching = not ends_in_time

    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(os, "_exit", leave)
    if ends_in_time:
        watch._watch(processes)
    else:
        with pytest.raises(SystemExit, match="1"):
            watch._watch(processes)
        assert "was killed by signal 9; the others end too" in capsys.readouterr().err
    assert [process.signals for process in processes] == [[] if ends_in_time else [signal.SIGKILL]] * 2


def test_points_are_logged_at_the_first_step_and_then_as_often_as_asked_for(tiny_config, tiny_data, monkeypatch):
    monkeypatch.setattr(record, "SECONDS", 1e9)
    steps, log = [], record.Record._log_step
    monkeypatch.setattr(
        record.Record,
        "_log_step",
        lambda self, trainer, module, out: steps.append(module.batches_done) or log(self, trainer, module, out),
    )
    train(tiny_config.replace(epochs=2, log_every=2), data=tiny_data, quiet=True)
    assert steps == [1, 2, 4, 6]


def test_lightnings_advice_is_not_printed():
    names = ("lightning.pytorch", "lightning.fabric", "lightning")
    for name in names:
        logging.getLogger(name).setLevel(logging.INFO)
    calm_lightning()
    assert not any(logging.getLogger(name).isEnabledFor(logging.INFO) for name in names)
