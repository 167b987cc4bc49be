"""Where a training may be stopped, by what, and in which words, without one."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

import pytest
from standins import training

from kvicreg.training import stopping
from kvicreg.training.stopping import Stopped, Stopping


@pytest.fixture
def handlers():
    """The signals' handlers are put back, whatever a test does."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in stopping.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def stopping_of(**given):
    calls = []
    checkpoints = SimpleNamespace(save_now=lambda *given: calls.append(given))
    return Stopping(checkpoints, **({"seconds": None, "quiet": True} | given)), calls


@pytest.mark.parametrize(
    ("given", "stops"),
    [
        ({"done": 4}, True),
        ({"done": 3}, False),  # the epoch is measured first
        ({"done": 4, "accumulate": 2}, False),
        ({"done": 5, "accumulate": 2}, True),
        ({"done": 4, "step": 4, "max_steps": 4}, False),  # it is over anyway
    ],
)
def test_a_stop_comes_between_two_steps_within_an_epoch(given, stops):
    (trainer, module), (stop, calls) = training(**given), stopping_of()
    stop.on_train_batch_end(trainer, module)
    assert calls == []
    stop.reason = "ctrl-C"
    if stops:
        with pytest.raises(Stopped) as stopped:
            stop.on_train_batch_end(trainer, module)
        assert str(stopped.value) == "Stopped by ctrl-C at epoch 2 of 2, step 3; saved."
        assert stopped.value.in_time is False
        assert calls == [(trainer, module)]
    else:
        stop.on_train_batch_end(trainer, module)
        assert calls == []
    assert trainer.should_stop == ("max_steps" in given)


@pytest.mark.parametrize(("done", "given", "stops"), [(3, {}, True), (6, {}, False), (3, {"max_steps": 3}, False)])
def test_at_the_end_of_an_epoch_it_has_been_saved(done, given, stops):
    (trainer, module), (stop, _) = training(done=done, **given), stopping_of(seconds=600.0)
    stop.on_train_epoch_end(trainer, module)
    stop.started_at -= 601
    if stops:
        with pytest.raises(Stopped) as stopped:
            stop.on_train_epoch_end(trainer, module)
        assert str(stopped.value) == "Stopped by the time limit of 10 minutes at epoch 1 of 2, step 3; saved."
        assert stopped.value.in_time is True
    else:
        stop.on_train_epoch_end(trainer, module)


@pytest.mark.parametrize(
    ("given", "is_over"),
    [
        ({"done": 5}, False),
        ({"done": 6}, True),
        ({"step": 4, "max_steps": 4}, True),
        ({"step": 3, "max_steps": 4}, False),
    ],
)
def test_a_training_that_is_over_does_not_begin(handlers, given, is_over):
    (trainer, module), (stop, _) = training(**given), stopping_of()
    stop.on_train_start(trainer, module)
    assert trainer.should_stop is is_over
    trainer.should_stop = True
    stop.on_train_start(trainer, module)
    assert trainer.should_stop
    stop.on_exception()


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "ctrl-C"), (signal.SIGTERM, "SIGTERM")])
@pytest.mark.parametrize("quiet", [True, False])
def test_the_first_signal_is_noted_and_the_second_ends_at_once(handlers, capfd, number, name, quiet):
    (trainer, module), (stop, _) = training(), stopping_of(quiet=quiet)
    stop.on_train_start(trainer, module)
    os.kill(os.getpid(), number)
    time.sleep(0)
    assert stop.reason == name
    words = "\nStopping after this step, which will be saved. Once more stops at once.\n"
    assert capfd.readouterr().err == ("" if quiet else words)
    with pytest.raises(KeyboardInterrupt):
        stop._receive(number, None)
    assert signal.getsignal(number) is signal.default_int_handler
    assert stop.handlers == {}


def test_other_processes_leave_signals_to_the_first(handlers):
    (trainer, module), (stop, _) = training(), stopping_of(seconds=0.0)
    trainer.is_global_zero = False
    stop.on_train_start(trainer, module)
    stop._receive(signal.SIGINT, None)
    assert stop.reason is None
    stop.started_at -= 1
    stop.on_train_batch_end(trainer, module)
    stop.on_train_end()


def test_signals_before_the_start_count_and_ignored_ones_stay_ignored(handlers):
    (trainer, module), (stop, _) = training(), stopping_of()
    trainer.received_sigterm = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop.on_train_start(trainer, module)
    assert stop.reason == "SIGTERM"
    assert list(stop.handlers) == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    stop.on_train_end()
