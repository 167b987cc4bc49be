"""Ctrl-C, SIGTERM and a time limit stop a training after the step at hand, saved; it goes on as if never stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import lightning.pytorch as pl
import pytest
import torch
from safetensors.torch import load_file

from kvicreg.runs import RunFolder, Settings
from kvicreg.training import train


@pytest.fixture(autouse=True)
def ctrl_c_works():
    """A job in the background (make test &) ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "the training puts handlers back"
    signal.signal(signal.SIGINT, before)


class Signal(pl.Callback):
    """Sends this process a signal during a batch, by its number from the start; several times, if asked."""

    def __init__(self, number: int, batch: int, times: int = 1) -> None:
        self.number, self.batch, self.times = number, batch, times

    def on_before_backward(self, trainer, module, loss):
        if module.batches_done == self.batch:
            for _ in range(self.times):
                os.kill(os.getpid(), self.number)


def same(one, two):
    one, two = load_file(one / "encoder.safetensors"), load_file(two / "encoder.safetensors")
    return one.keys() == two.keys() and all(one[key].equal(two[key]) for key in one)


def batches_done(folder):
    return torch.load(RunFolder(folder).checkpoint("last"), weights_only=True)["batches_done"]


@pytest.mark.parametrize(
    ("number", "batch", "accumulate", "saved_at"),
    [
        (signal.SIGINT, 1, 1, 1),  # within the first epoch of three batches
        (signal.SIGTERM, 5, 1, 5),  # within the second
        (signal.SIGINT, 3, 1, 3),  # in the last batch of an epoch, which is then measured
        (signal.SIGINT, 1, 2, 2),  # a step of two batches is done whole
    ],
)
def test_a_stopped_training_is_saved_and_goes_on_exactly(
    tiny_config, tiny_data, tmp_path, capsys, number, batch, accumulate, saved_at
):
    settings = tiny_config.replace(accumulate=accumulate)
    with pytest.raises(KeyboardInterrupt):
        train(settings, data=tiny_data, callbacks=[Signal(number, batch)])
    told = " ".join(capsys.readouterr().out.split())
    epoch = 1 + (saved_at - 1) // 3
    assert f"epoch {epoch} of 2, step {saved_at // accumulate}; saved" in told
    assert f"kvicreg train --resume {tmp_path / 'run'}".replace(" ", "") in told.replace(" ", "")
    assert batches_done(tmp_path / "run") == saved_at

    train(settings, data=tiny_data, resume=True)
    assert f"Goes on at epoch {1 + saved_at // 3}, batch {1 + saved_at % 3} of 3" in capsys.readouterr().out
    train(settings.replace(out=str(tmp_path / "whole")), data=tiny_data, quiet=True)
    assert same(tmp_path / "run", tmp_path / "whole")


def test_a_signal_in_the_last_batch_lets_the_run_finish(tiny_config, tiny_data):
    folder = train(tiny_config, data=tiny_data, quiet=True, callbacks=[Signal(signal.SIGTERM, 6)])
    assert (folder / "encoder.safetensors").is_file()


def test_a_second_ctrl_c_stops_at_once(tiny_config, tiny_data, tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        train(tiny_config, data=tiny_data, callbacks=[Signal(signal.SIGINT, 2, times=2)])
    assert "Stopped at once" in capsys.readouterr().out
    assert not RunFolder(tmp_path / "run").checkpoint("last").exists()


def test_a_run_without_a_checkpoint_says_that_it_starts_from_the_beginning(tiny_config, tiny_data, tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        train(tiny_config, data=tiny_data, quiet=True, callbacks=[Signal(signal.SIGINT, 1, times=2)])
    train(tiny_config, data=tiny_data, resume=True)
    assert "no checkpoint" in capsys.readouterr().out


def test_a_finished_run_that_is_resumed_says_so(tiny_config, tiny_data, capsys):
    train(tiny_config.replace(epochs=1), data=tiny_data, quiet=True)
    train(tiny_config.replace(epochs=1), data=tiny_data, resume=True)
    assert "finished" in capsys.readouterr().out


def test_a_time_limit_stops_and_saves_and_is_no_error(tiny_config, tiny_data, tmp_path, capsys):
    class Slow(pl.Callback):
        def on_train_batch_end(self, *_):
            time.sleep(0.2)

    settings = tiny_config.replace(time_limit="0.1s")
    folder = train(settings, data=tiny_data, callbacks=[Slow()])
    assert "time limit" in capsys.readouterr().out
    assert batches_done(folder) == 1
    assert not (folder / "encoder.safetensors").exists()
    with pytest.raises(ValueError, match=r"time_limit: expected something like 30m"):
        Settings.of(time_limit="soon")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_processes_stop_with_a_checkpoint_and_do_not_hang(tmp_path, number):
    start = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_module('kvicreg')"
    )
    code = tmp_path / "start.py"  # Lightning starts the second process from the same file
    code.write_text(start)
    run = tmp_path / "run"
    command = [sys.executable, str(code), "train", "--data=mnist-small", "--epochs=50", "--batch-size=64",
               "--width=0.25", "--norm=group", "--projector-hidden=32", "--projector-outputs=32", "--probe-images=0",
               "--accelerator=cpu", "--devices=2", "--checkpoint-steps=5", f"--out={run}"]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        while not RunFolder(run).checkpoint("last").exists():
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.05)
        stopped = time.time()
        # a terminal sends ctrl-C to both processes; `kill` sends SIGTERM to the first
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        lines, _ = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, lines
    assert "; saved" in lines
    assert RunFolder(run).checkpoint("last").stat().st_mtime >= stopped, "saved where it was stopped"
    assert batches_done(run) >= 5
    assert "Traceback" not in lines
