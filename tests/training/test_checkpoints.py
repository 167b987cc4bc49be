"""Checkpoints: when they are saved, which, and what is said of one that can't be used."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from standins import training

from kvicreg.runs import RunFolder
from kvicreg.training import checkpoint as saving
from kvicreg.training.checkpoint import AtomicCheckpointIO, Checkpoints


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Checkpoints of every 2 batches and 5 minutes by a clock set by hand, and what they save."""
    saved, clock = [], SimpleNamespace(now=0.0)
    monkeypatch.setattr(saving, "time", SimpleNamespace(monotonic=lambda: clock.now))
    record = SimpleNamespace(score=lambda: None)
    guard = SimpleNamespace(check_weights=lambda trainer, module: saved.append("checked"))

    def set_up(steps=None, **given):
        checkpoints = Checkpoints(RunFolder(tmp_path), record, guard, steps=steps, minutes=5.0)
        trainer, module = training(**given)
        connector = SimpleNamespace(dump_checkpoint=lambda: "content")
        trainer._checkpoint_connector = connector
        trainer.strategy = SimpleNamespace(save_checkpoint=lambda content, path: saved.append((content, path.name)))
        trainer.save_checkpoint = lambda path: saved.append(path.name)
        return checkpoints, trainer, module

    return SimpleNamespace(set_up=set_up, saved=saved, clock=clock, record=record)


WITHIN = ["checked", ("content", "last.ckpt")]


@pytest.mark.parametrize(
    ("given", "minutes", "is_saved"),
    [
        ({"done": 4}, 0, False),
        ({"done": 4, "steps": 2}, 0, True),
        ({"done": 5, "steps": 2}, 0, False),
        ({"done": 6, "steps": 2}, 9, False),  # the end of the epoch saves
        ({"done": 4}, 5, False),
        ({"done": 4}, 5.1, True),
        ({"done": 4, "accumulate": 2}, 9, False),  # within a step
        ({"done": 5, "accumulate": 2}, 9, True),
        ({"done": 5, "step": 5, "max_steps": 5}, 0, True),
        ({"done": 5, "step": 4, "max_steps": 5}, 0, False),
    ],
)
def test_checkpoints_within_an_epoch_are_due_by_steps_time_and_the_last_step(kept, given, minutes, is_saved):
    checkpoints, trainer, module = kept.set_up(**given)
    kept.clock.now = 60 * minutes
    checkpoints.on_train_batch_end(trainer, module)
    assert kept.saved == (WITHIN if is_saved else [])
    if is_saved:
        assert (checkpoints.saved_at, checkpoints.due) == (60 * minutes, False)


def test_a_checkpoint_that_is_due_within_a_step_is_saved_after_it_by_the_first_process(kept):
    checkpoints, trainer, module = kept.set_up(done=1, steps=1, accumulate=2)
    checkpoints.on_train_batch_end(trainer, module)
    assert kept.saved == []
    checkpoints.steps, module.batches_done, trainer.is_global_zero = None, 2, False
    checkpoints.on_train_batch_end(trainer, module)
    assert kept.saved == []
    trainer.is_global_zero = True
    checkpoints.on_train_batch_end(trainer, module)
    assert kept.saved == WITHIN


def test_the_best_epoch_is_kept_beside_the_last(kept):
    checkpoints, trainer, module = kept.set_up(done=6)
    assert checkpoints.state_dict() == {"best": -math.inf}
    for score in (None, -0.5, -0.5, 0.25, 0.125):
        kept.clock.now += 1
        kept.record.score = lambda score=score: score
        checkpoints.on_train_epoch_end(trainer, module)
    assert kept.saved == ["last.ckpt", "best.ckpt", "last.ckpt", "last.ckpt", "best.ckpt", "last.ckpt", "last.ckpt"]
    assert checkpoints.state_dict() == {"best": 0.25}
    assert (checkpoints.saved_at, checkpoints.due) == (5, False)
    checkpoints.load_state_dict({"best": 0.75})
    assert checkpoints.best == 0.75


def test_an_epoch_that_max_steps_has_ended_is_not_saved_again(kept):
    checkpoints, trainer, module = kept.set_up(done=4)
    checkpoints.on_train_epoch_end(trainer, module)
    assert kept.saved == []


WAY_OUT = "copy best.ckpt over it to go on from the best epoch, or begin again with --overwrite"
WHOLE = {
    "state_dict": {}, "optimizer_states": [], "callbacks": {}, "batches_done": 3, "global_step": 3,
    "pytorch-lightning_version": "2",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "global_step"])
def test_a_checkpoint_that_lacks_something_is_named_with_the_way_out(tmp_path, name):
    path = tmp_path / "run" / "checkpoints" / "last.ckpt"
    path.parent.mkdir(parents=True)
    AtomicCheckpointIO().save_checkpoint({key: value for key, value in WHOLE.items() if key != name}, path)
    with pytest.raises(ValueError, match="lacks") as error:
        AtomicCheckpointIO().load_checkpoint(path)
    assert str(error.value) == f"{path} was not written by this version of kvicreg: it lacks {name}; {WAY_OUT}"


def test_a_checkpoint_comes_back_or_tells_its_damage(tmp_path, monkeypatch):
    path, reading = tmp_path / "checkpoints" / "last.ckpt", AtomicCheckpointIO()
    path.parent.mkdir()
    reading.save_checkpoint(WHOLE, str(path))
    assert reading.load_checkpoint(path, map_location=None) == WHOLE
    for name in ("batches_done", "global_step"):
        reading.save_checkpoint(WHOLE | {name: "many"}, path)
        with pytest.raises(ValueError, match="damaged") as error:
            reading.load_checkpoint(path)
        assert str(error.value) == f"{path} is damaged (it does not say how far it got); {WAY_OUT}"
    for raised, reason in ((KeyError(), "KeyError"), (RuntimeError(f" {'x' * 300}\nmore"), "x" * 200)):

        def fail(*given, raised=raised, **more):
            assert (given, more) == ((path,), {"map_location": "cpu", "weights_only": True})
            raise raised

        monkeypatch.setattr(torch, "load", fail)
        with pytest.raises(ValueError, match="damaged") as error:
            reading.load_checkpoint(path)
        assert str(error.value) == f"{path} is damaged ({reason}); {WAY_OUT}"
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError):
        reading.load_checkpoint(tmp_path / "checkpoints" / "none.ckpt")
