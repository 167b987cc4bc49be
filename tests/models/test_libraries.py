"""What is asked of timm and torchvision, and what is made of their answers; the libraries are stand-ins here."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from kvicreg.models import build_encoder, torchvision_import
from kvicreg.models.encoder import ENCODERS, IMAGENET
from kvicreg.options import Values


class Model(nn.Module):
    """A convolution, and a head as torchvision has them."""

    def __init__(self, channels=3, width=5, patch_size=(8, 8)):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, width, 3, 2, 1, bias=False))
        self.patch_embed = SimpleNamespace(patch_size=patch_size)
        self.fc = nn.Linear(width, width)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.fc(self.stem(x).mean((2, 3))))


def checkpoint_filter_fn(weights, model):
    """What timm calls its translation of other layouts."""
    return {f"translated.{name}": value for name, value in weights.items()}


def options(name, **settings):
    return ENCODERS.read(name, Values(settings))


@pytest.fixture
def timm(monkeypatch):
    """A timm of two models, of which one takes images of one size alone."""
    library = ModuleType("timm")
    library.asked, names = [], ["resnet99", "vit_small"]
    configs = {
        "vit_small": {"fixed_input_size": True, "input_size": (3, 96, 96), "mean": [0.1, 0.2, 0.3], "std": [1, 2, 3]}
    }

    def create_model(model_name, pretrained=False, **arguments):
        library.asked.append({"model_name": model_name, "pretrained": pretrained, **arguments})
        if pretrained and model_name == "resnet99":
            raise OSError("no\nnetwork")
        return Model(arguments.get("in_chans", 3))

    library.is_model = names.__contains__
    library.list_models = lambda: names
    library.create_model = create_model
    library.models = SimpleNamespace(
        get_pretrained_cfg=lambda name: SimpleNamespace(to_dict=lambda: configs[name]) if name in configs else None
    )
    monkeypatch.setitem(sys.modules, "timm", library)
    monkeypatch.setattr(torchvision_import.importlib.util, "find_spec", lambda name: None)
    return library


def test_timm_is_asked_for_a_model_without_a_head(timm):
    encoder = build_encoder("timm:resnet99", 5, 48, model_args="depth=3")
    assert timm.asked == [{"model_name": "resnet99", "pretrained": False, "num_classes": 0, "in_chans": 5, "depth": 3}]
    assert encoder.feature_dim == 2
    assert encoder.training
    assert encoder.description["name"] == "timm:resnet99"


def test_timm_is_told_the_size_where_its_model_needs_it(timm):
    build_encoder("timm:vit_small", 3, 48, pooling="avg")
    assert timm.asked[0] | {"img_size": 48, "global_pool": "avg", "num_classes": 0, "in_chans": 3} == timm.asked[0]
    with pytest.raises(ValueError, match="patches of 8 pixels, and 42 is no multiple of that: pass image_size=40"):
        build_encoder("timm:vit_small", 3, 42)
    build_encoder("timm:resnet99", 3, 42)


def test_timm_says_how_images_were_normalized(timm):
    assert options("timm:vit_small").normalization() == ((0.1, 0.2, 0.3), (1, 2, 3))
    assert options("timm:resnet99").normalization() == IMAGENET


def test_a_model_that_stumbles_is_told_its_usual_size(timm, monkeypatch):
    monkeypatch.setattr(Model, "forward", lambda self, x: 1 / 0)
    sentence = r"of 48 pixels and 3 channels \(ZeroDivisionError: .*\); its usual size is {0}: --image-size {0}"
    with pytest.raises(ValueError, match=sentence.format(96)):
        build_encoder("timm:vit_small", 3, 48)
    with pytest.raises(ValueError, match=sentence.format(224)):
        build_encoder("timm:resnet99", 3, 48)


def test_published_weights_of_timm(timm):
    weights = options("timm:vit_small", model_args="depth=3").published()
    assert timm.asked == [{"model_name": "vit_small", "pretrained": True, "depth": 3}]
    assert set(weights) == set(Model().state_dict())
    with pytest.raises(OSError, match=r"the weights of timm:resnet99 could not be loaded \(OSError: no network\)"):
        options("timm:resnet99").published()


def test_layouts_are_translated_where_timm_can(timm, monkeypatch):
    weights = {"a": torch.zeros(1)}
    translated = options("timm:resnet99").translated(weights, Model())
    assert [*translated] == ["translated.a"]
    monkeypatch.setitem(checkpoint_filter_fn.__globals__, "checkpoint_filter_fn", lambda weights, model: weights["b"])
    assert options("timm:resnet99").translated(weights, Model()) is weights  # a layout that it does not know
    assert options("timm:resnet99").translated(weights, nn.Linear(1, 1)) is weights


def test_models_that_timm_does_not_have_are_named(timm):
    with pytest.raises(ValueError, match="timm has no model 'resnet9'; did you mean 'resnet99'"):
        build_encoder("timm:resnet9", 3, 32)


@pytest.mark.parametrize(("package", "more"), [("timm", "$"), ("torchvision", " torchvision$")])
def test_a_library_that_is_not_there_is_named(monkeypatch, package, more):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(torchvision_import.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=rf"encoder '{package}:x' needs the package {package}: pip install .*'{more}"):
        build_encoder(f"{package}:x", 3, 32)


@pytest.fixture
def torchvision(monkeypatch):
    """A torchvision of three models."""
    library, asked = ModuleType("torchvision"), []

    def get_model(name, weights=None, **arguments):
        asked.append({"name": name, "weights": weights, **arguments})
        if weights and name == "vgg":
            raise OSError("no network")
        return Model()

    names = ["resnet99", "vgg", "vit_b_16"]
    library.models = SimpleNamespace(list_models=lambda module: names, get_model=get_model, asked=asked)
    monkeypatch.setitem(sys.modules, "torchvision", library)
    monkeypatch.setitem(sys.modules, "torchvision.models", library.models)
    monkeypatch.setattr(torchvision_import.importlib.util, "find_spec", lambda name: None)
    return library.models


@pytest.mark.parametrize("channels", [1, 3])
def test_a_model_of_torchvision_loses_its_head_and_takes_the_channels(torchvision, channels):
    encoder = build_encoder("torchvision:resnet99", channels, 32)
    assert torchvision.asked == [{"name": "resnet99", "weights": None}]
    assert isinstance(encoder.fc, nn.Identity)
    assert isinstance(encoder.head, nn.Linear), "only the first that there is"
    first = encoder.stem[0]
    assert (first.in_channels, first.out_channels, first.kernel_size) == (channels, 5, (3, 3))
    assert (first.stride, first.padding, first.bias) == ((2, 2), (1, 1), None)


def test_a_vit_of_torchvision_is_told_the_size(torchvision, monkeypatch):
    monkeypatch.setattr(Model, "forward", lambda self, x: x.mean((2, 3)))
    assert build_encoder("torchvision:vit_b_16", 3, 48).feature_dim == 3
    assert torchvision.asked == [{"name": "vit_b_16", "weights": None, "image_size": 48}]
    with pytest.raises(ValueError, match="patches of 16 pixels, and 40 is no multiple of that: pass image_size=32"):
        build_encoder("torchvision:vit_b_16", 3, 40)
    with pytest.raises(ValueError, match="torchvision has no model 'vg'; did you mean 'vgg'"):
        build_encoder("torchvision:vg", 3, 40)


def test_published_weights_of_torchvision(torchvision):
    weights = options("torchvision:resnet99", model_args="width=3").published()
    assert torchvision.asked == [{"name": "resnet99", "weights": "DEFAULT", "width": 3}]
    assert set(weights) == set(Model().state_dict())
    assert options("torchvision:resnet99").normalization() == IMAGENET
    with pytest.raises(OSError, match="the weights of torchvision:vgg could not be loaded"):
        options("torchvision:vgg").published()


@pytest.mark.parametrize(("message", "imports"), [("operator torchvision::nms does not exist", 2), ("another", 1)])
def test_operators_that_torchvision_misses_are_declared_once(monkeypatch, message, imports):
    declared, imported = [], []

    def import_module(name):
        imported.append(name)
        if len(imported) % 2:
            raise RuntimeError(message)

    library = SimpleNamespace(define=declared.append)
    monkeypatch.setattr(torchvision_import, "_libraries", [])
    monkeypatch.setattr(torchvision_import.torch.library, "Library", lambda *where: declared.append(where) or library)
    fake = SimpleNamespace(import_module=import_module, util=SimpleNamespace(find_spec=lambda name: name))
    monkeypatch.setattr(torchvision_import, "importlib", fake)
    torchvision_import.make_torchvision_importable()
    assert imported == ["torchvision"] * imports
    schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    expected = [("torchvision", "DEF"), f"nms{schema}", f"qnms{schema}"]
    assert declared == (expected if imports == 2 else [])
    imported[:] = []
    torchvision_import.make_torchvision_importable()
    assert imported == ["torchvision"], "what is declared is not declared again"
