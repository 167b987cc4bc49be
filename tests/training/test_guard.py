"""The guard of every step: when it stops a training, what it keeps, and in which words."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from standins import training

from kvicreg.losses.terms import NotFiniteViews
from kvicreg.runs import RunFolder
from kvicreg.training.alarm import NotFinite
from kvicreg.training.guard import StepGuard, read_fault

BATCH = (torch.zeros(2, 1, 4, 4), torch.tensor([5, 6]), torch.tensor([0, 1]))


def guarded(tmp_path, **given):
    guard, (trainer, module) = StepGuard(RunFolder(tmp_path)), training(**given)
    guard.on_train_batch_start(trainer, module, BATCH, 0)
    return guard, trainer, module


def test_the_guard_keeps_the_batch_with_its_address_and_says_what_to_do(tmp_path):
    guard, trainer, module = guarded(tmp_path)
    guard.on_before_backward(trainer, module, torch.tensor(1.0))
    with pytest.raises(NotFinite) as error:
        guard.on_before_backward(trainer, module, torch.tensor(math.nan))
    assert str(error.value) == (
        f"the loss is nan at batch 3 (step 3, epoch 2). Its images are in {tmp_path}/fault.npz, and the last "
        f"checkpoint is from before: 'kvicreg replay {tmp_path}' repeats it and tells where it begins. "
        "Try a lower learning_rate, clip 1, a longer warm-up (warmup_epochs), or precision 32-true."
    )
    fault = read_fault(RunFolder(tmp_path))
    assert {key: fault[key] for key in ("batch", "epoch", "seed", "step", "rank")} == {
        "batch": 3, "epoch": 1, "seed": 8, "step": 3, "rank": 0,
    }  # fmt: skip
    with np.load(tmp_path / "fault.npz") as kept:
        assert kept["labels"].tolist() == [0, 1]
        assert kept["samples"].tolist() == [5, 6]


def test_a_loss_on_a_gpu_is_looked_at_when_it_has_arrived(tmp_path, monkeypatch):
    class OnGPU:
        is_cuda = True

        def __init__(self, value):
            self.value = torch.tensor(value)

        def detach(self):
            return self.value

    class Event:
        waited = 0

        def record(self):
            pass

        def synchronize(self):
            Event.waited += 1

    monkeypatch.setattr(torch.cuda, "Event", Event)
    guard, trainer, module = guarded(tmp_path)
    guard.on_before_backward(trainer, module, OnGPU(math.inf))
    assert Event.waited == 0
    module.batches_done += 1
    with pytest.raises(NotFinite, match="the loss is inf at batch 3 "):
        guard.on_before_backward(trainer, module, OnGPU(1.0))
    assert Event.waited == 1


def test_weights_that_are_not_finite_are_told_at_the_end_of_an_epoch(tmp_path):
    guard, trainer, module = guarded(tmp_path)
    guard.on_train_epoch_end(trainer, module)
    module.method.bias.data.fill_(math.nan)
    with pytest.raises(NotFinite, match=r"^the weights are not finite after batch 3 \(step 3, epoch 2\)\."):
        guard.on_train_epoch_end(trainer, module)


def test_embeddings_that_are_not_finite_leave_a_sentence_on_their_batch(tmp_path):
    guard, trainer, module = guarded(tmp_path)
    guard.on_exception(trainer, module, KeyboardInterrupt())
    assert guard.sentence is None
    guard.on_exception(trainer, module, NotFiniteViews("nan"))
    assert guard.sentence.startswith("the loss is nan at batch 4 (step 3, epoch 2).")
    early = StepGuard(RunFolder(tmp_path))
    early.on_exception(trainer, module, NotFiniteViews("nan"))
    assert early.sentence is None, "before any batch"


def test_a_guard_lets_go_of_its_batch_and_knows_that_it_has_started(tmp_path):
    guard = StepGuard(RunFolder(tmp_path))
    assert (guard.batch, guard.waiting, guard.sentence, guard.started) == (None, None, None, False)
    guard.on_train_start()
    assert guard.started is True
    guard.batch = guard.waiting = BATCH
    guard.on_train_end()
    assert guard.batch is guard.waiting is None
