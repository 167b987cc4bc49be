"""The module that is trained: its rates, its batches and views by address, its average and its checkpoints."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from kvicreg.data import ArrayData
from kvicreg.runs import Settings
from kvicreg.training import module as training
from kvicreg.training.build import build_method
from kvicreg.training.module import SelfSupervised

SMALL = {"width": 0.25, "projector_hidden": 16, "projector_outputs": 16, "image_size": 16, "channels": 1}
COLOURS = ArrayData(torch.randint(0, 256, (64, 3, 16, 16), dtype=torch.uint8), torch.arange(64) % 5, name="colours")


def module_of(data=COLOURS, **given):
    settings = Settings.of(**(SMALL | {"channels": 3, "batch_size": 16, "accelerator": "cpu"} | given))
    return SelfSupervised(build_method(settings), settings, data=data)


class Trainer(SimpleNamespace):
    """Stands for Lightning's trainer, of 10 batches an epoch."""

    num_training_batches, global_rank, world_size, estimated_stepping_batches = 10, 1, 2, 40


@pytest.fixture
def at(monkeypatch):
    """`at(module, step)` puts a module at a step of a training."""

    def put(module, step, **more):
        monkeypatch.setattr(SelfSupervised, "global_step", step)
        monkeypatch.setattr(SelfSupervised, "trainer", Trainer(**more))
        return module

    return put


@pytest.mark.parametrize(
    ("step", "given", "rate"),
    [
        (0, {}, 1 / 6),  # the first of 5 steps of warm-up
        (5, {}, 1.0),
        (22, {}, 0.1 + 0.45 * (1 + math.cos(math.pi * 17 / 35))),
        (40, {}, 0.1),
        (2, {"accumulate": 3}, 1.0),  # 4 steps an epoch, of which 2 warm up
        (9, {"accumulate": 3}, 0.55),
    ],
)
def test_the_learning_rate_is_that_of_the_step(at, step, given, rate):
    given = {"epochs": 4, "learning_rate": 1.0, "final_learning_rate": 0.1, "warmup_epochs": 0.5} | given
    assert at(module_of(**given), step).current_learning_rate() == pytest.approx(rate)


@pytest.mark.parametrize(
    ("step", "given", "share"),
    [
        (9, {}, 0.0),
        (10, {}, 1 / 6),
        (12, {}, 0.5),
        (15, {}, 1.0),
        (30, {}, 1.0),
        (3, {"accumulate": 3}, 0.0),
        (4, {"accumulate": 3}, 1 / 3),
    ],
)
def test_the_encoder_has_its_share_after_the_projectors_epochs(at, step, given, share):
    module = module_of(**({"epochs": 4, "projector_epochs": 1, "warmup_epochs": 0.5} | given))
    assert at(module, step).encoder_share() == pytest.approx(share)


def test_groups_of_parameters_have_rates_of_their_own(at):
    groups = [{"lr": 9.0}, {"lr": 9.0, "rate": 0.5}, {"lr": 9.0, "rate": 0.5, "waits": True}]
    module = at(module_of(), 3, optimizers=[SimpleNamespace(param_groups=groups)])
    module.current_learning_rate, module.encoder_share = lambda: 0.4, lambda: 0.25
    module.on_train_batch_start(None, 0)
    assert [group["lr"] for group in groups] == pytest.approx([0.4, 0.2, 0.05])


def test_an_average_follows_quickly_at_first(at, monkeypatch):
    followed, stepped = [], []
    monkeypatch.setattr(training.pl.LightningModule, "optimizer_step", lambda self, *given: stepped.append(given))
    module = module_of(ema=0.9)
    module.average.follow = lambda *parts, **more: followed.append((parts, more))
    module.method.after_step = lambda *given: stepped.append(given)
    for step in (0, 8, 500):
        at(module, step).optimizer_step(1, 2, "optimizer", "closure")
    assert stepped == [given for step in (0, 8, 500) for given in ((1, 2, "optimizer", "closure"), (step, 40))]
    assert [more["momentum"] for _, more in followed] == pytest.approx([0.1, 0.5, 0.9])
    assert followed[0][0] == (module.method.encoder, module.method.projector)
    assert all(more["buffers"] for _, more in followed)


def test_batches_are_those_that_are_left_of_the_epoch(at, monkeypatch):
    asked = []
    monkeypatch.setattr(training, "batches", lambda *given, **more: asked.append((given, more)) or iter(()))
    module = at(module_of(seed=3, workers=2), 0)
    module.batches_done = 6
    loader = module.train_dataloader()
    assert len(loader) == 4
    list(loader)
    assert asked == [((COLOURS, 16), {"seed": 3, "epoch": 1, "start": 2, "rank": 1, "world_size": 2, "workers": 2})]
    list(at(module_of(), 0).train_dataloader())
    assert asked[1][1]["workers"] == 0
    with pytest.raises(ValueError, match=r"^SelfSupervised has no data: pass data=, or a loader to trainer.fit"):
        module_of(data=None).train_dataloader()


def test_a_step_sees_views_by_address_labels_and_groups(at):
    module, seen = module_of(seed=3, channels_last=False), []
    module.groups = torch.arange(64) % 2

    def method(views, step, labels, **groups):
        seen.append((views, step, labels, groups, torch.initial_seed()))
        return SimpleNamespace(loss=torch.tensor(2.0), terms={"variance": torch.tensor(1.0)}, embeddings="z")

    module.method = None
    del module._modules["method"]
    object.__setattr__(module, "method", method)
    samples = torch.tensor([5, 9])
    at(module, 7)
    module.batches_done = 4
    batch = (COLOURS.fetch(samples), samples, torch.tensor([0, 4]))
    result = module.training_step(batch, 0)
    module.training_step(batch, 0)
    views, step, labels, groups, seed = seen[0]
    for view, shown in enumerate(views):
        assert shown.equal(module.views(batch[0], samples, seed=3, epoch=1, view=view))
    assert (len(views), step, labels.tolist(), groups["groups"].tolist()) == (2, 7, [0, 4], [1, 1])
    assert seed == training.key(3, 4) >> 1
    assert seen[1][4] == training.key(3, 5) >> 1
    assert module.batches_done == 6
    assert result == {
        "loss": torch.tensor(2.0), "embeddings": "z",
        "terms": {"loss": torch.tensor(2.0), "variance": torch.tensor(1.0)},
    }  # fmt: skip


@pytest.mark.parametrize(("largest", "least"), [(0.4, 0.05), (0.03, 0.03)])
def test_smaller_crops_are_half_as_large_and_show_less(monkeypatch, largest, least):
    made = []
    module = module_of(method="lejepa", views_per_image=2, local_crops=3, local_crop_area=largest, seed=2)

    def views(config, **more):
        made.append((config.crop_area, config.crop_area_max, more))
        return lambda images, samples, **address: address

    monkeypatch.setattr(training, "Views", views)
    module.batches_done = 9
    samples = torch.arange(4)
    seen = module.views_of(COLOURS.fetch(samples), samples)
    assert [view.shape for view in seen[:2]] == [(4, 3, 16, 16)] * 2
    assert seen[2:] == [{"view": view, "seed": 2, "epoch": 2} for view in (2, 3, 4)]
    about = {"size": 8, "mean": module.views.mean, "std": module.views.std}
    assert made == [(least, largest, about)]


def test_a_checkpoint_tells_what_its_encoder_is_and_how_far_it_got():
    module, checkpoint = module_of(), {}
    module.batches_done = 7
    module.on_save_checkpoint(checkpoint)
    about = checkpoint["encoder"]
    assert checkpoint["batches_done"] == 7
    assert (about["image_size"], about["mean"], about["data"]) == (16, list(module.views.mean), "colours")
    assert about["std"] == list(module.views.std)
    other = module_of(data=None)
    other.on_load_checkpoint(checkpoint)
    assert other.batches_done == 7
    other.on_save_checkpoint(bare := {})
    assert bare == {"batches_done": 7}


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ({}, torch.channels_last),
        ({"channels_last": False}, torch.preserve_format),
    ],
)
def test_channels_come_last_where_convolutions_like_it(given, form):
    assert module_of(**given).form is form


@pytest.mark.parametrize(("widths", "suits"), [((8, 16), True), ((8, 12), False), ((8,), False)])
def test_channels_come_last_only_for_several_convolutions_of_whole_eights(widths, suits):
    layers = [nn.Conv2d(3 if i == 0 else widths[i - 1], width, 3) for i, width in enumerate(widths)]
    encoder = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    encoder.feature_dim = widths[-1]
    settings = Settings.of(**SMALL)
    assert SelfSupervised(build_method(settings, encoder), settings)._suits_channels_last() == suits
