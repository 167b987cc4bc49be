"""What a run is built from: settings that say everything, precision, views, groups and the network."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from kvicreg.data import ArrayData, Views
from kvicreg.models.given import GivenEncoder
from kvicreg.runs import Settings
from kvicreg.training.build import _precision, build_groups, build_method, build_views, check_count, resolve

SMALL = {"width": 0.25, "projector_hidden": 16, "projector_outputs": 16, "image_size": 16, "channels": 1}
COLOURS = ArrayData(torch.randint(0, 256, (64, 3, 16, 16), dtype=torch.uint8), torch.arange(64) % 5, name="colours")


def test_a_normalization_of_ones_own_is_that_of_the_views():
    views = build_views(Settings.of(normalize="0.5,0.25,0.125/0.1,0.2,0.3"), COLOURS)
    assert (tuple(views.mean), tuple(views.std), views.size) == ((0.5, 0.25, 0.125), (0.1, 0.2, 0.3), 16)
    usual = Views.of(COLOURS)
    for normalize in ("data", None):
        views = build_views(Settings.of(normalize=normalize), COLOURS)
        assert (tuple(views.mean), tuple(views.std)) == (tuple(usual.mean), tuple(usual.std))
    with pytest.raises(ValueError, match=r"^normalize: colours has 3 channels, got 1 means$"):
        build_views(Settings.of(normalize="0.5/0.1"), COLOURS)


def test_views_that_weights_expect_are_normalized_as_they_were(make_run, tmp_path, tiny_data):
    settings = Settings.of(init=str(make_run(tmp_path / "run")))
    views = build_views(settings, tiny_data)
    assert (tuple(views.mean), tuple(views.std)) == ((0.3,), (0.37,))
    assert resolve(settings, tiny_data, views).model.normalize == "0.3/0.37"


def test_resolved_settings_say_everything(tmp_path):
    settings = Settings.of(out=str(tmp_path), precision="16-mixed")
    views = build_views(settings, COLOURS)
    made = resolve(settings, COLOURS, views)
    flat = made.flat()
    assert {name: flat[name] for name in ("batch_size", "image_size", "channels", "precision", "normalize")} == {
        "batch_size": 16, "image_size": 16, "channels": 3, "precision": "16-mixed", "normalize": "data",
    }  # fmt: skip
    assert flat["encoder"] == "small-cnn"
    assert flat["out"] == str(tmp_path)
    assert flat["data"] != settings.flat()["data"], "they are from Python"
    assert flat["intensity"] == settings.flat()["intensity"]
    assert {name: flat[name] for name in views.config.flat()} == views.config.flat()
    own = nn.Identity()
    own.feature_dim = 4
    given = resolve(settings, COLOURS, views, own).model.encoder
    assert isinstance(given, GivenEncoder)
    assert given.module == "Identity"


def test_a_method_learns_how_many_classes_there_are(monkeypatch):
    asked = []
    settings = Settings()
    kind = type(settings.method)
    resolved = kind.resolved
    monkeypatch.setattr(kind, "resolved", lambda self, classes=None: asked.append(classes) or resolved(self, classes))
    for data in (COLOURS, ArrayData(COLOURS.images, name="colours")):
        resolve(settings, data, build_views(settings, data))
    assert asked == [5, None]


@pytest.mark.parametrize(
    ("count", "given", "sentence"),
    [
        (15, {}, "15 images are too few: training needs at least 16, and does well with thousands"),
        (20, {"batch_size": 21}, "batch_size 21 is more than the 20 images of 'few'; pass a smaller one, such as "
         "--batch-size 8"),
        (3, {"batch_size": 4}, "batch_size 4 is more than the 3 images of 'few'; pass a smaller one, such as "
         "--batch-size 2"),
    ],
)  # fmt: skip
def test_too_few_images_are_told_with_what_would_do(count, given, sentence):
    with pytest.raises(ValueError, match="images") as error:
        check_count(Settings.of(**given), ArrayData(torch.zeros(count, 1, 8, 8, dtype=torch.uint8), name="few"))
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("count", "given", "size"),
    [(16, {}, 8), (20, {"batch_size": 20}, 20), (400, {"devices": 3}, 96), (400, {"nodes": 5}, 80), (100, {}, 24)],
)
def test_the_batch_size_is_one_that_processes_can_share(count, given, size):
    data = ArrayData(torch.zeros(count, 1, 8, 8, dtype=torch.uint8), name="few")
    assert check_count(Settings.of(**given), data) == size


@pytest.mark.parametrize(
    ("given", "gpu", "bfloat16", "expected"),
    [
        ({"precision": "64-true"}, True, True, "64-true"),
        ({}, True, True, "bf16-mixed"),
        ({"precision": "auto"}, True, False, "32-true"),
        ({"accelerator": "cpu"}, True, True, "32-true"),  # of a processor that has none
        ({}, False, True, "32-true"),
    ],
)
def test_automatic_precision_asks_the_device_that_trains(monkeypatch, given, gpu, bfloat16, expected):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda *, including_emulation: asked.append(including_emulation) or bfloat16
    )
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert _precision(Settings.of(**given)) == expected
    assert True not in asked
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    if not gpu:
        assert _precision(Settings.of(**given)) == "bf16-mixed"


def test_groups_are_numbered_in_the_order_of_their_names(monkeypatch):
    asked = []
    method = SimpleNamespace(groups="site")
    data = SimpleNamespace(groups=lambda source, images: asked.append((source, images)) or ["b", "a", "c", "a"])
    assert build_groups(SimpleNamespace(method=method, data=data), COLOURS).tolist() == [1, 0, 2, 0]
    assert asked == [("site", COLOURS)]
    assert build_groups(SimpleNamespace(method=SimpleNamespace()), COLOURS) is None


def test_one_frozen_block_is_named_alone_and_notes_of_the_encoder_stay():
    method = build_method(Settings.of(**SMALL, encoder="resnet18", freeze="conv1"))
    count = sum(p.numel() for p in method.encoder.parameters())
    share = sum(p.numel() for p in method.encoder.parameters() if not p.requires_grad) / count
    assert method.encoder.notes == [f"Frozen: conv1, {share:.0%} of the encoder."]
    own = nn.Sequential(nn.Flatten(), nn.Linear(256, 8))
    own.feature_dim, own.notes = 8, ("mine",)
    assert build_method(Settings.of(**SMALL), own).encoder.notes == ["mine"]
    with pytest.raises(ValueError, match="checkpoint_activations") as error:
        build_method(Settings.of(**SMALL, checkpoint_activations=True), own)
    assert str(error.value) == (
        "checkpoint_activations: Sequential has no set_grad_checkpointing(), as resnet18, resnet50, models of timm and "
        "most of transformers have"
    )


def test_weights_follow_from_the_seed_alone():
    one, two, other = (build_method(Settings.of(**SMALL, seed=seed)).encoder.state_dict() for seed in (3, 3, 4))
    assert all(one[name].equal(two[name]) for name in one)
    assert not all(one[name].equal(other[name]) for name in one)


def test_method_and_network_are_made_of_the_settings(monkeypatch):
    settings, asked = Settings.of(**SMALL, norm="group", seed=5), []
    kind = type(settings.method)
    build = kind.build
    monkeypatch.setattr(kind, "build", lambda *given, **more: asked.append(more) or build(*given, **more))
    method = build_method(settings)
    assert asked == [{"norm": "group", "seed": 5}]
    assert not any(isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) for part in method.modules())
