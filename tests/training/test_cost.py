"""What a step costs follows from a few small steps: which they are, and what is made of their time and memory."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from pictures import CPU
from torch import nn

from kvicreg.data import ArrayData, permutation
from kvicreg.methods import KernelVICReg
from kvicreg.models import Projector
from kvicreg.runs import Settings
from kvicreg.training import cost
from kvicreg.training.build import build_views, resolve
from kvicreg.training.cost import _loss_seconds, _step, loss_cost, measure, synchronize

SMALL = {"width": 0.25, "projector_hidden": 16, "projector_outputs": 16, "accelerator": "cpu", "batch_size": 8}


class Steps(list):
    """Stands for `_step`: notes what every step is given."""

    def __call__(self, module, optimizer, images, samples, device):
        self.module, self.optimizer, self.device = module, optimizer, device
        self.append((images, samples))


@pytest.fixture
def steps(monkeypatch):
    steps = Steps()
    monkeypatch.setattr(cost, "_step", steps)
    monkeypatch.setattr(cost, "_loss_seconds", lambda method, device, clock: (method, device, clock))
    return steps


@pytest.fixture
def peaks(monkeypatch):
    """Sets the peaks of memory that pieces of work are told to have."""

    def set_up(*bytes_):
        left = list(bytes_)

        class Memory:
            def __init__(self, device):
                assert device == CPU

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            def of(self, work):
                work()
                return left.pop(0)

        monkeypatch.setattr(cost, "PeakMemory", Memory)

    set_up(1000, 5000)
    return set_up


def measured(count=200, side=16, timed=True, clock=None, **given):
    settings = Settings.of(**(SMALL | given))
    images = torch.randint(0, 256, (count, 1, side, side), dtype=torch.uint8)
    data = ArrayData(images, torch.arange(count) % 3)
    views = build_views(settings, data)
    return data, measure(resolve(settings, data, views), data, views, clock, timed=timed)


@pytest.mark.parametrize(
    ("side", "given", "few"),
    [
        (16, {}, 64),
        (40, {}, 40),  # 65,536 pixels
        (70, {}, 16),
        (300, {}, 11),  # a million pixels
        (70, {"method": "w-mse", "projector_outputs": 24}, None),
    ],
)
def test_a_few_images_and_twice_as_many_are_tried(steps, peaks, side, given, few):
    data, _ = measured(side=side, clock=iter(range(99)).__next__, seed=3, **given)
    few = few or steps.module.method.least_batch
    assert few > 10
    assert [len(images) for images, _ in steps] == [few, few, 2 * few, 2 * few, 2 * few]
    for images, samples in steps:
        assert samples.equal(permutation(len(data), seed=3, epoch=0)[: len(samples)])
        assert images.equal(data.fetch(samples))


def test_where_there_are_fewer_images_they_are_tried_again(steps, peaks):
    data, measurement = measured(count=70, clock=iter(range(99)).__next__)
    assert measurement.read_seconds == 1 / 70
    images, samples = steps[-1]
    assert len(samples) == 128
    assert samples[70:].equal(samples[:58])
    assert images.equal(data.fetch(samples))


def test_the_cost_is_made_of_time_and_memory(steps, peaks):
    clock = iter(range(99)).__next__
    _, measurement = measured(clock=clock)
    assert measurement == cost.Cost(
        device=CPU, fixed_bytes=0, image_bytes=62, image_seconds=1 / 128, read_seconds=1 / 128,
        loss_seconds=(steps.module.method, CPU, clock),
    )  # fmt: skip
    assert steps.device == CPU


@pytest.mark.parametrize(
    ("smaller", "larger", "fixed", "image"),
    [
        (10_000, 16_400, 3600, 100),
        (10_000, 9_000, 10_000, 0),
        (3_000, 16_400, 0, 209),
        (None, 5, None, None),
        (5, None, None, None),
    ],
)
def test_memory_has_a_part_that_grows_and_one_that_does_not(steps, peaks, smaller, larger, fixed, image):
    peaks(smaller, larger)
    _, measurement = measured(timed=False)
    assert (measurement.fixed_bytes, measurement.image_bytes) == (fixed, image)
    assert math.isnan(measurement.image_seconds)
    assert len(steps) == 3


def test_small_steps_leave_weights_alone_and_are_neither_compiled_nor_started(steps, peaks, monkeypatch):
    made, build = [], cost.build_method
    monkeypatch.setattr(cost, "build_method", lambda *given, **more: made.append(more) or build(*given, **more))
    data, _ = measured(compile=True, timed=False)
    assert made == [{"start": False}]
    assert not steps.module.settings.engine.compile
    assert steps.module.data is data
    assert steps.module.views.size == 16
    assert {group["lr"] for group in steps.optimizer.param_groups} == {0.0}
    assert steps.module.dtype == torch.float32
    peaks(1, 2)
    measured(precision="64-true", timed=False)
    assert steps.module.dtype == torch.float64


def test_time_is_that_which_passes_by_default(steps, peaks, monkeypatch):
    monkeypatch.setattr(cost.time, "perf_counter", iter(range(0, 999, 2)).__next__)
    assert measured()[1].image_seconds == 2 / 128


# ---- one step


class Watched:
    """Stands for a module: notes what its method is given, and in which arithmetic."""

    dtype, form = torch.float32, torch.channels_last

    def __init__(self, precision, labels):
        self.data = SimpleNamespace(labels_of=lambda samples: labels if labels is None else labels[samples])
        self.settings = SimpleNamespace(engine=SimpleNamespace(precision=precision))
        self.weight, self.order = torch.ones((), requires_grad=True), []

    def views_of(self, images, samples):
        return [images.double() + 1, images.double() + samples.view(-1, 1, 1, 1)]

    def method(self, views, step, labels):
        self.seen = views, step, labels
        self.autocast = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu")
        return SimpleNamespace(loss=3 * self.weight)

    def step(self):
        self.order.append(float(self.weight.grad))

    def zero_grad(self):
        self.order.append("zero")


@pytest.mark.parametrize(
    ("precision", "autocast"),
    [("32-true", False), (None, False), ("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16)],
)
def test_a_small_step_is_one_of_training(precision, autocast):
    images, samples = torch.rand(4, 3, 5, 5), torch.tensor([2, 0, 1, 3])
    module = Watched(precision, torch.tensor([7, 8, 9, 10]))
    _step(module, module, images, samples, CPU)
    (one, two), step, labels = module.seen
    assert one.equal(images + 1)
    torch.testing.assert_close(two, images + samples.view(-1, 1, 1, 1))
    assert one.is_contiguous(memory_format=torch.channels_last)
    assert (step, labels.tolist()) == (0, [9, 7, 8, 10])
    assert module.autocast == autocast
    assert module.order == [3.0, "zero"], "backward, then the step, then gradients are forgotten"


def test_a_small_step_needs_no_labels(monkeypatch):
    waited = []
    monkeypatch.setattr(cost, "synchronize", waited.append)
    module = Watched("32-true", None)
    _step(module, module, torch.rand(4, 3, 5, 5), torch.arange(4), CPU)
    assert module.seen[2] is None
    assert waited == [CPU]


def test_only_a_gpu_is_waited_for(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    synchronize(CPU)
    synchronize(torch.device("cuda", 1))
    assert waited == [torch.device("cuda", 1)]


# ---- the loss alone


def test_the_loss_is_timed_on_two_batches_of_embeddings(monkeypatch):
    encoder = nn.Flatten()
    encoder.feature_dim = 4
    method, asked = KernelVICReg(encoder, Projector(4, 8, 12)), []
    monkeypatch.setattr(cost, "loss_cost", lambda *given: asked.append(given) or (0.25, 7.0))
    clock = iter(range(9)).__next__
    assert _loss_seconds(method, CPU, clock) == 0.25
    ((loss, views, by),) = asked
    assert (loss, by) == (method.loss, clock)
    assert [(view.shape, view.requires_grad, view.device) for view in views] == [((256, 12), True, CPU)] * 2
    assert not views[0].equal(views[1])
    assert _loss_seconds(nn.Identity(), CPU, clock) == 0


def test_the_first_loss_warms_up_and_gives_the_value():
    ticks, calls = iter([0, 2, 10, 15]).__next__, []
    view = torch.ones(2, requires_grad=True)

    def loss(one, other):
        calls.append(1)
        return (len(calls) * one * other).sum()

    assert loss_cost(loss, [view, view], ticks) == (2, 2.0)
    assert len(calls) == 3
    assert view.grad.tolist() == [12, 12], "with its gradient each time"
