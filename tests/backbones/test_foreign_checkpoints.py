"""Weights of anybody's: the layouts in which they come, the report, and what is refused."""

from __future__ import annotations

import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from kvicreg.models import ResNet18, ResNet50, build_encoder
from kvicreg.models.checkpoints import read_checkpoint
from kvicreg.models.start import start_from
from kvicreg.runs import Settings, save_encoder
from kvicreg.training.build import build_method, build_views

NARROW = {"width": 0.125, "stem": "imagenet"}


@pytest.fixture(scope="module")
def trunk():
    torch.manual_seed(0)
    return ResNet50(**NARROW)


def with_prefix(prefix, weights):
    return {f"{prefix}{name}": value for name, value in weights.items()}


HEAD = {"fc.weight": torch.zeros(10, 256), "fc.bias": torch.zeros(10)}
LAYOUTS = {
    "torchvision and timm": lambda w: w | HEAD,
    "VICReg's resnet50.pth": lambda w: w,
    "VICReg's whole checkpoint": lambda w: {
        "epoch": 1, "model": with_prefix("module.backbone.", w) | {"module.projector.0.weight": torch.zeros(2, 2)},
        "optimizer": {"state": {}},
    },
    "solo-learn": lambda w: {
        "epoch": 1, "state_dict": with_prefix("momentum_backbone.", {k: v + 1 for k, v in w.items()})
        | with_prefix("backbone.", w) | {"classifier.weight": torch.zeros(2, 2)}, "hyper_parameters": {"lr": 0.1},
    },
    "DINO's teacher": lambda w: {
        "student": with_prefix("module.backbone.", {k: v + 1 for k, v in w.items()}),
        "teacher": with_prefix("backbone.", w), "args": None,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("layout", "suffix"),
    [*((layout, "pth") for layout in LAYOUTS), ("solo-learn", "ckpt"), ("torchvision and timm", "safetensors")],
)
def test_a_resnet50_in_the_layout_of(layout, suffix, trunk, tmp_path):
    content, path = LAYOUTS[layout](trunk.state_dict()), tmp_path / f"weights.{suffix}"
    (save_file if suffix == "safetensors" else torch.save)(content, path)
    settings = Settings.of(encoder="resnet50", **NARROW, image_size=64, channels=3, init=str(path))
    encoder = build_method(settings).encoder
    assert all(value.equal(trunk.state_dict()[name]) for name, value in encoder.state_dict().items())
    assert encoder.notes[0].startswith(f"Starts from {path}: 318 of 318 tensors, 100.0% of the encoder's numbers")


@pytest.mark.parametrize(
    ("prefixes", "taken"),
    [
        (("student.", "teacher."), "teacher."),
        (("student.", "ema_teacher."), "ema_teacher."),
        (("a.momentum.", "student.backbone."), "student.backbone."),
        (("encoder.", ""), ""),
        (tuple(f"{letter}." for letter in "zyxwvutsrqponmlkjihgfedcba"), "a."),
    ],
)
def test_of_several_encoders_in_a_file_one_is_always_taken_and_of_a_teacher_and_its_student_the_teacher(
    prefixes, taken
):
    file = {f"{prefix}weight": torch.full((2, 2), float(k)) for k, prefix in enumerate(prefixes)}
    module = nn.Linear(2, 2, bias=False)
    start_from(module, file, "file")
    assert module.weight.equal(file[f"{taken}weight"])


def test_names_that_differ_are_matched_in_order_where_all_shapes_agree(trunk):
    theirs = {f"features.{n}.{name.rpartition('.')[2]}": v for n, (name, v) in enumerate(trunk.state_dict().items())}
    encoder = ResNet50(**NARROW)
    assert "matched in order because names differ" in start_from(encoder, theirs | HEAD, "theirs")
    assert encoder.layer4[2].conv3.weight.equal(trunk.layer4[2].conv3.weight)
    swapped = dict(sorted(theirs.items()))
    with pytest.raises(ValueError, match="it has 0% of its numbers, and 90% are needed. Not in it: conv1.weight"):
        start_from(encoder, swapped, "theirs")


def test_what_is_missing_is_told_and_too_much_of_it_is_refused(trunk):
    weights = trunk.state_dict()
    few = {name: value for name, value in weights.items() if not name.startswith("layer1")}
    report = start_from(ResNet50(**NARROW), few, "f.pth")
    assert "; not there, so as the seed made them: layer1.0.conv1.weight, " in report
    few = {name: value for name, value in weights.items() if not name.startswith("layer4")}
    with pytest.raises(
        ValueError, match="f.pth does not fit the encoder: it has .*% of its numbers, and 90% are needed"
    ):
        start_from(ResNet50(**NARROW), few, "f.pth")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            lambda: ResNet50(width=0.25, stem="imagenet"),
            r"conv1.weight is \(8, 3, 7, 7\) there and \(16, 3, 7, 7\) here",
        ),
        (lambda: ResNet50(width=0.125, stem="small"), r"the same stem \(--stem imagenet\)"),
        (lambda: build_encoder("small-cnn", 3, 64), "it has 0% of its numbers"),
        (lambda: ResNet18(width=0.5, stem="imagenet"), "does not fit the encoder"),
    ],
)
def test_another_width_or_model_is_a_sentence(other, message, trunk):
    with pytest.raises(ValueError, match=message):
        start_from(other(), trunk.state_dict(), "weights.pth")


def test_the_input_layer_is_adapted_to_other_channels(trunk):
    grey, six = ResNet50(1, **NARROW).eval(), ResNet50(6, **NARROW).eval()
    report = start_from(grey, trunk.state_dict(), "weights")
    assert "conv1.weight adapted" in report
    x = torch.randn(2, 1, 64, 64)
    torch.testing.assert_close(grey(x), trunk.eval()(x.expand(-1, 3, -1, -1)), rtol=1e-3, atol=1e-4)
    start_from(six, trunk.state_dict(), "weights")
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(six(torch.cat([x, x], 1)), trunk(x), rtol=1e-3, atol=1e-4)


def test_positions_are_brought_to_another_grid():
    table = torch.nn.Parameter(torch.randn(1, 1 + 9, 4))
    module = nn.Module()
    module.positions = nn.Parameter(torch.zeros(1, 1 + 36, 4))
    start_from(module, {"positions": table.detach()}, "weights")
    assert module.positions[:, 0].equal(table[:, 0])
    module.positions.data[:, 1:] -= module.positions.data[:, 1:].mean(1, keepdim=True)
    flat = nn.Module()
    flat.positions = nn.Parameter(torch.zeros(1, 1 + 36, 4))
    start_from(flat, {"positions": torch.ones(1, 10, 4)}, "weights")
    torch.testing.assert_close(flat.positions.detach(), torch.ones(1, 37, 4))


class Runs:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return print, ("code has run",)


def test_a_file_that_is_no_checkpoint_or_has_code_is_a_sentence(tmp_path, capsys):
    (tmp_path / "text.pth").write_text("no checkpoint")
    with pytest.raises(ValueError, match="text.pth is no checkpoint that torch reads"):
        read_checkpoint(tmp_path / "text.pth")
    torch.save({"state_dict": {"weight": Runs()}}, tmp_path / "code.pth")
    with pytest.raises(ValueError, match="holds Python objects, which could run code, and is not read"):
        read_checkpoint(tmp_path / "code.pth")
    (tmp_path / "old.pth").write_bytes(pickle.dumps({"weight": Runs()}))
    with pytest.raises(ValueError, match="old.pth is no checkpoint that torch reads without running code"):
        read_checkpoint(tmp_path / "old.pth")
    assert "code has run" not in capsys.readouterr().out
    (tmp_path / "damaged.safetensors").write_bytes(b"no safetensors")
    with pytest.raises(ValueError, match="damaged.safetensors is damaged"):
        read_checkpoint(tmp_path / "damaged.safetensors")
    torch.save({"epoch": 3, "optimizer": {}}, tmp_path / "none.pth")
    with pytest.raises(ValueError, match="holds no weights by name, but a table of epoch, optimizer"):
        read_checkpoint(tmp_path / "none.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="holds no weights by name, but a list"):
        read_checkpoint(tmp_path / "list.pth")
    with pytest.raises(FileNotFoundError, match="there are no weights at"):
        read_checkpoint(tmp_path / "nothing.pth")


def test_images_are_normalized_as_the_starting_weights_expect(trunk, tmp_path):
    from kvicreg.data import ArrayData

    data = ArrayData(torch.randint(0, 256, (32, 3, 64, 64), dtype=torch.uint8), name="noise")
    torch.save(trunk.state_dict(), tmp_path / "w.pth")
    save_encoder(trunk, tmp_path / "run", image_size=64, mean=[0.1, 0.2, 0.3], std=[0.5, 0.5, 0.5])
    settings = Settings.of(encoder="resnet50", **NARROW)
    means = {
        "the data's": settings,
        "ImageNet's": settings.replace(init=str(tmp_path / "w.pth")),
        "a run's": settings.replace(init=str(tmp_path / "run")),
        "a run's by its file": settings.replace(init=str(tmp_path / "run" / "encoder.safetensors")),
        "given": settings.replace(init=str(tmp_path / "w.pth"), normalize="0.4,0.4,0.4/1,1,1"),
    }
    views = {name: build_views(each, data) for name, each in means.items()}
    assert views["the data's"].mean == pytest.approx((0.5, 0.5, 0.5), abs=0.01)
    assert views["ImageNet's"].mean == (0.485, 0.456, 0.406)
    assert views["a run's"].mean == views["a run's by its file"].mean == (0.1, 0.2, 0.3)
    assert views["given"].std == (1, 1, 1)
    grey = ArrayData(torch.randint(0, 256, (32, 1, 64, 64), dtype=torch.uint8), name="noise")
    assert build_views(means["ImageNet's"], grey).mean == (0.449,)
    with pytest.raises(ValueError, match="normalize: noise has 1 channels, got 3 means"):
        build_views(means["given"], grey)
    with pytest.raises(ValueError, match="normalize: expected data, or MEAN"):
        Settings.of(normalize="0.4")
    with pytest.raises(ValueError, match="pretrained and init are two starts"):
        Settings.of(init="x", pretrained=True)
    with pytest.raises(ValueError, match="auto has no published weights"):
        build_method(Settings.of(pretrained=True, image_size=16, channels=1))
