"""What each method does in a step and after it, beside descending its loss."""

from __future__ import annotations

import math

import pytest
import torch
from other_values import changed
from small_methods import NAMES, STEPS, advance, batch, build, built, optimizer_of, options_of

from kvicreg.methods import METHODS
from kvicreg.methods.prototypes import Prototypes
from kvicreg.methods.queue import Queue
from kvicreg.methods.target import Target, rising
from kvicreg.runs import Settings
from kvicreg.training.build import build_method, resolve


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_with_a_gradient_gets_one(name):
    """DDP waits for all of them."""
    method = build(name)
    views, labels = batch(0)
    method(views, 0, labels).loss.backward()
    missing = [key for key, p in method.named_parameters() if p.requires_grad and p.grad is None]
    assert not missing


@pytest.mark.parametrize("name", NAMES)
def test_everything_but_the_loss_is_detached(name):
    views, labels = batch(0)
    result = build(name)(views, 0, labels)
    assert result.loss.requires_grad
    assert not result.embeddings.requires_grad
    assert not any(value.requires_grad for value in result.terms.values())


def test_the_target_moves_by_its_momentum_and_never_by_gradient():
    online = torch.nn.Linear(3, 2)
    target = Target(online)
    assert not any(p.requires_grad for p in target.parameters())
    before = online.weight.detach().clone()
    with torch.no_grad():
        online.weight.add_(1.0)
    target.follow(online, momentum=0.9)
    torch.testing.assert_close(target.copies[0].weight, before + 0.1)


def test_the_momentum_rises_to_one_along_half_a_cosine():
    assert rising(0.996, 0, 100) == pytest.approx(0.996)
    assert rising(0.996, 50, 100) == pytest.approx(1 - 0.004 / 2)
    assert rising(0.996, 25, 100) == pytest.approx(1 - 0.004 * (math.cos(math.pi / 4) + 1) / 2)
    assert rising(0.996, 100, 100) == 1


def test_the_queue_holds_the_last_entries_in_a_ring():
    queue = Queue(5, 1)
    for start in (0, 3, 6):
        queue.push(torch.arange(start, start + 3.0).unsqueeze(1))
    assert queue.full
    assert sorted(queue.entries.flatten().tolist()) == [4, 5, 6, 7, 8]
    queue.push(torch.arange(20.0).unsqueeze(1))
    assert sorted(queue.entries.flatten().tolist()) == [15, 16, 17, 18, 19]


def test_frozen_prototypes_have_a_gradient_of_zero_and_embeddings_have_not():
    prototypes, z = Prototypes(4, 6), torch.randn(3, 4, requires_grad=True)
    prototypes(z, frozen=True).square().sum().backward()
    assert not prototypes.weight.grad.any()
    assert z.grad.any()
    assert prototypes(z).abs().max() <= 1 + 1e-6


def test_the_supervised_control_refuses_images_without_labels():
    with pytest.raises(ValueError, match="needs labels"):
        build("supervised")(batch(0)[0], 0)


@pytest.mark.parametrize("name", ["simclr", "barlow-twins", "kernel-barlow-twins", "kernel-simclr", "supervised"])
def test_training_descends(name):
    method = build(name)
    views, labels = batch(0)
    before = method(views, 0, labels).loss.item()
    optimizer = optimizer_of(method)
    for _ in range(STEPS):
        advance(method, optimizer, range(1))
    assert method(views, 0, labels).loss.item() < before


@pytest.mark.parametrize("name", ["kernel-barlow-twins", "kernel-byol", "kernel-simclr", "kernel-vicreg", "ssl-hsic"])
def test_a_methods_own_kernel_has_random_features(name):
    method = built(METHODS.find(name).of(approximation="random-fourier", components=16))
    weight = next(method.projector.parameters())
    before = weight.detach().clone()
    advance(method, optimizer_of(method), range(1))
    assert bool(weight.isfinite().all())
    assert not weight.equal(before)


@pytest.mark.parametrize("name", NAMES)
def test_settings_reach_the_method_by_name_and_are_written_down(name, tiny_images):
    data, views = tiny_images
    config = resolve(Settings.of(method=name, batch_size=8, projector_hidden=16, projector_outputs=8), data, views)
    method = build_method(config)
    assert type(method) is getattr(config.method, "method", type(method))
    again = build_method(resolve(config, data, views))
    assert all(a.equal(b) for a, b in zip(method.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_of_a_method_changes_what_is_built(name):
    first = options_of(name)
    assert state(built(first)) == state(built(first))
    for setting, before, after in changed(first):
        is_other = state(built(after)) != state(built(before))
        assert is_other or after.views_seen != before.views_seen, f"{name} does not pass on {setting}"


def state(thing: object) -> object:
    """What an object holds, all the way down; of tensors the shape."""
    if isinstance(thing, torch.Tensor):
        return tuple(thing.shape)
    if isinstance(thing, dict):
        return {name: state(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [state(value) for value in thing]
    if isinstance(thing, torch.nn.Module) or type(thing).__module__.startswith("kvicreg."):
        return [type(thing), state(vars(thing))]
    return repr(thing)


@pytest.fixture
def tiny_images():
    from kvicreg.data import ArrayData, Views

    data = ArrayData(torch.zeros(16, 1, 16, 16, dtype=torch.uint8).random_(), torch.arange(16) % 3, name="noise")
    return data, Views.of(data)
