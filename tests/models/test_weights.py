"""Weights from elsewhere: which of them go where, and the sentences about those that do not."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import my_encoder
import pytest
import torch
from torch import nn

from kvicreg.models import ResNet18, SmallCNN, bridges, build_encoder
from kvicreg.models.blocks import blocks, frozen_blocks
from kvicreg.models.bridges import BridgeOptions, check_patches, measured
from kvicreg.models.checkpoints import read_checkpoint
from kvicreg.models.encoder import ENCODERS, IMAGENET, feature_dim
from kvicreg.models.norm import norm1d, norm2d, scaled
from kvicreg.models.start import _other_grid, start_from
from kvicreg.models.weights import fill, one_line, read_safetensors, save_weights, serialized
from kvicreg.options import Values


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


class Two(nn.Module):
    """Two layers, of 100 and 9 numbers, and a counter."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(10, 10, bias=False), nn.Linear(3, 3, bias=False)
        self.register_buffer("num_batches_tracked", torch.tensor(0))


FULL = {"first.weight": random(10, 10), "second.weight": random(3, 3), "num_batches_tracked": torch.tensor(7)}


def test_names_are_found_behind_the_shortest_prefix_that_has_most_of_them():
    module = Two()
    former = {f"momentum_encoder.{name}": value + 1 for name, value in FULL.items()}
    longer = {f"module.encoder.{name}": value + 2 for name, value in FULL.items()}
    ours = {f"encoder.{name}": value for name, value in FULL.items()}
    report = start_from(module, {**former, **longer, **ours}, "f.pth")
    assert report == "Starts from f.pth: 3 of 3 tensors, 100.0% of the encoder's numbers, names without 'encoder.'."
    assert all(value.equal(FULL[name]) for name, value in module.state_dict().items())
    start_from(module, {f"x_{name}": value for name, value in FULL.items()} | longer, "f.pth")
    assert module.first.weight.equal(FULL["first.weight"] + 2), "a prefix ends with a dot"


def test_less_than_nine_tenths_are_refused_and_a_counter_does_not_count():
    module = Two()
    before = module.second.weight.clone()
    report = start_from(module, {"first.weight": FULL["first.weight"]}, "f.pth")
    assert report == (
        "Starts from f.pth: 1 of 3 tensors, 91.7% of the encoder's numbers; "
        "not there, so as the seed made them: second.weight."
    )
    assert module.second.weight.equal(before)
    with pytest.raises(ValueError) as refused:
        start_from(module, {"second.weight": FULL["second.weight"], "x.a": random(1)}, "f.pth")
    assert str(refused.value) == (
        "f.pth does not fit the encoder: it has 8% of its numbers, and 90% are needed. Not in it: first.weight. "
        "In it, but not in the encoder: x.a"
    )


def test_of_many_names_three_are_listed():
    module = nn.Sequential(*(nn.Linear(1, 1, bias=False) for _ in range(5)))
    with pytest.raises(ValueError, match=r"Not in it: 0.weight, 1.weight, 2.weight and 2 more. In it.*: nothing$"):
        start_from(module, {}, "f.pth")


def test_a_weight_of_another_shape_is_named_behind_its_prefix():
    weights = {f"net.{name}": value for name, value in FULL.items()} | {"net.second.weight": random(3, 4)}
    with pytest.raises(ValueError, match=r"second.weight is \(3, 4\) there and \(3, 3\) here. The encoder must be the"):
        start_from(Two(), weights, "f.pth")


def test_weights_are_matched_in_order_only_where_everything_agrees():
    counter = {"c.num_batches_tracked": torch.tensor(1)}  # a module's own come first
    theirs = {**counter, "a.weight": FULL["first.weight"], "b.weight": FULL["second.weight"]}
    module = Two()
    report = start_from(module, theirs | {"head.weight": random(1)}, "f.pth")
    assert report.endswith("100.0% of the encoder's numbers, matched in order because names differ.")
    assert module.second.weight.equal(FULL["second.weight"])
    for other in ({"b.bias": FULL["second.weight"]}, {"b.weight": random(9, 1)}, {}):
        wrong = {**counter, "a.weight": theirs["a.weight"], **other}
        assert "in order" not in start_or_refusal(Two(), wrong)


def start_or_refusal(module, weights):
    try:
        return start_from(module, weights, "f.pth")
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("channels", [1, 2, 4, 7])
def test_an_input_layer_of_other_channels_answers_alike_to_grey(channels):
    theirs = random(5, 3, 2, 2)
    module = nn.Conv2d(channels, 5, 2, bias=False)
    assert "weight adapted" in start_from(module, {"weight": theirs}, "f.pth")
    assert module.weight.shape == (5, channels, 2, 2)
    torch.testing.assert_close(module.weight.sum(1), theirs.sum(1) if channels == 1 else summed(theirs, channels))
    refused = start_or_refusal(nn.Conv2d(4, 5, 2, bias=False), {"weight": random(5, 2, 2, 2)})
    assert "(5, 2, 2, 2) there and (5, 4, 2, 2) here" in refused


def summed(weight, channels):
    return sum(weight[:, i % 3] for i in range(channels)) * 3 / channels


@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_a_grid_of_positions_is_resized_and_tokens_before_it_are_left(tokens):
    grid = torch.linspace(0, 1, 4).expand(4, 4)
    table = torch.stack([grid, grid.T], -1).reshape(1, 16, 2)
    before = random(1, tokens, 2)
    module = nn.Module()
    module.positions = nn.Parameter(torch.zeros(1, tokens + 64, 2))
    start_from(module, {"positions": torch.cat([before, table], 1)}, "f.pth")
    assert module.positions[:, :tokens].equal(before)
    ours = module.positions[0, tokens:].reshape(8, 8, 2).detach()
    torch.testing.assert_close(ours[..., 0], ours[..., 1].T)
    torch.testing.assert_close(ours[..., 0], ours[:1, :, 0].expand(8, 8))
    assert bool((ours[0, 1:, 0] > ours[0, :-1, 0]).all())
    module.positions = nn.Parameter(torch.zeros(1, tokens + 50, 2))
    assert "positions is" in start_or_refusal(module, {"positions": torch.cat([before, table], 1)})


def test_the_library_is_asked_for_other_layouts():
    class Options(BridgeOptions):
        def translated(self, weights, encoder):
            assert isinstance(encoder, Two)
            return {name.removesuffix("_of_theirs"): value for name, value in weights.items()}

    theirs = {f"{name}_of_theirs": value for name, value in FULL.items()}
    assert "in order" in start_or_refusal(Two(), theirs) or "does not fit" in start_or_refusal(Two(), theirs)
    module = Two()
    assert "3 of 3 tensors" in start_from(module, theirs, "f.pth", Options())
    assert module.second.weight.equal(FULL["second.weight"])


def test_of_what_lies_in_a_checkpoint_the_teacher_is_taken(tmp_path):
    weights = {"w": random(2)}
    torch.save({"student": {"w": random(3)}, "model": {"w": random(4)}, "teacher": weights}, tmp_path / "a.pth")
    assert read_checkpoint(tmp_path / "a.pth")["w"].equal(weights["w"])
    torch.save({"state_dict": {"epoch": 3}, "module": {"model": {"w": weights["w"], "step": 5}}}, tmp_path / "b.pth")
    assert [*read_checkpoint(str(tmp_path / "b.pth"))] == ["w"]
    torch.save({}, tmp_path / "c.pth")
    with pytest.raises(ValueError, match="holds no weights by name, but a table of nothing"):
        read_checkpoint(tmp_path / "c.pth")
    torch.save(dict.fromkeys("abcdefg", 1), tmp_path / "d.pth")
    with pytest.raises(ValueError, match=r"but a table of a, b, c, d, e$"):
        read_checkpoint(tmp_path / "d.pth")


def test_weights_survive_a_file_whatever_their_layout_in_memory(tmp_path):
    module = nn.Linear(3, 2)
    save_weights(module, tmp_path / "w.safetensors")
    stored = read_safetensors(tmp_path / "w.safetensors")
    assert all(value.equal(stored[name]) for name, value in module.state_dict().items())
    (tmp_path / "t.safetensors").write_bytes(serialized({"a": random(3, 4).T, "b": nn.Parameter(random(2))}))
    assert read_safetensors(tmp_path / "t.safetensors")["a"].equal(random(3, 4).T)
    fill(module, stored, tmp_path)
    with pytest.raises(ValueError, match=r"w.pth does not fit the encoder: .*Missing key\(s\)"):
        fill(module, {"weight": stored["weight"]}, tmp_path / "w.pth")
    with pytest.raises(FileNotFoundError, match="there are no weights at"):
        read_safetensors(tmp_path / "none.safetensors")


def test_an_error_is_told_in_one_short_line():
    assert one_line(ValueError("two\n  lines")) == "ValueError: two lines"
    assert one_line(ValueError("x" * 300)) == f"ValueError: {'x' * 200}"


def test_blocks_have_every_parameter_once_and_the_first_has_what_lies_between():
    encoder = ResNet18(width=0.125)
    parts = blocks(encoder)
    assert [part.name for part in parts][:5] == ["conv1", "bn1", "layer1.0", "layer1.1", "layer2.0"]
    assert parts[2].module is encoder.layer1[0]
    encoder.token = nn.Parameter(torch.zeros(3))
    with_token = blocks(encoder)
    assert with_token[0].parameters[0] is encoder.token
    assert [p for part in with_token[1:] for p in part.parameters] == [p for part in parts[1:] for p in part.parameters]
    assert sorted(id(p) for part in with_token for p in part.parameters) == sorted(map(id, encoder.parameters()))
    alone = nn.Module()
    alone.token = nn.Parameter(torch.zeros(3))
    assert [(part.name, part.module, len(part.parameters)) for part in blocks(alone)] == [("whole", None, 1)]
    nested = nn.ModuleDict(
        {"body": nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(1, 1)]), "end": nn.Linear(1, 1)})}
    )
    assert [part.name for part in blocks(nested)] == ["body.layers.0", "body.end"]


def test_blocks_are_frozen_by_number_or_name():
    encoder = ResNet18(width=0.125)
    names = [part.name for part in blocks(encoder)]
    assert frozen_blocks(encoder, None) == []
    assert [part.name for part in frozen_blocks(encoder, "all")] == names
    assert [part.name for part in frozen_blocks(encoder, "1")] == names[:1]
    assert [part.name for part in frozen_blocks(encoder, str(len(names)))] == names
    assert [part.name for part in frozen_blocks(encoder, "bn1, layer1")] == ["bn1", "layer1.0", "layer1.1"]
    for wrong in ("0", str(len(names) + 1)):
        with pytest.raises(ValueError, match=rf"has {len(names)} blocks, and {wrong} can't be frozen"):
            frozen_blocks(encoder, wrong)
    with pytest.raises(ValueError, match=r"has no block 'layer'; did you mean 'layer\d"):
        frozen_blocks(encoder, "layer")


def test_layers_are_normalized_over_the_batch_or_over_eight_groups():
    assert isinstance(norm2d("batch", 6), nn.BatchNorm2d)
    assert [norm2d("group", channels).num_groups for channels in (6, 8, 24, 32)] == [2, 8, 8, 8]
    assert norm1d("batch", 6).num_features == 6
    assert norm1d("group", 6).normalized_shape == (6,)
    assert [scaled(64, width) for width in (0.01, 0.2, 0.25, 1, 2)] == [8, 16, 16, 64, 128]


@pytest.mark.parametrize(("patch", "size", "nearest"), [(16, 40, 32), (16, 41, 48), (16, 3, 16), ((4, 8), 12, 16)])
def test_images_that_are_no_whole_patches_are_told_the_nearest_size(patch, size, nearest):
    with pytest.raises(ValueError, match=f"pass image_size={nearest} \\(--image-size {nearest}\\)"):
        check_patches("x", size, patch)
    check_patches("x", nearest, patch)


def test_arguments_of_a_library_are_literals_or_words():
    options = BridgeOptions(model_args="width=0.5, depths=[1,2], norm=layer, deep=True")
    assert options.arguments() == {"width": 0.5, "depths": [1, 2], "norm": "layer", "deep": True}
    assert BridgeOptions().arguments() == {}
    taken = {}
    options.constructed(lambda **arguments: taken.update(arguments) or nn.Identity(), width=1, size=3)
    assert taken == {"width": 0.5, "depths": [1, 2], "norm": "layer", "deep": True, "size": 3}


def test_a_library_that_does_not_work_is_told_with_its_reason(monkeypatch):
    def fails(name):
        raise RuntimeError("of\nanother")

    monkeypatch.setattr(bridges, "importlib", SimpleNamespace(import_module=fails))
    with pytest.raises(ImportError, match=r"needs the package p that works \(RuntimeError: of another\): pip install"):
        BridgeOptions().imported("p.q")


def test_an_encoder_is_measured_as_it_will_be_used():
    net = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert measured(net, "x", 2, 8) is net
    assert (net.feature_dim, net.training, int(net[1].num_batches_tracked)) == (3, True, 0)
    with pytest.raises(ValueError, match=r"\(b, width\), and gives \(1, 2, 8, 8\)"):
        measured(nn.Identity(), "x", 2, 8)
    with pytest.raises(TypeError, match="must tell the width of its features as .feature_dim; Identity does not"):
        feature_dim(nn.Identity())


def test_a_function_of_ones_own_is_found_beside_the_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != os.getcwd()])
    (tmp_path / "here_alone.py").write_text(
        "from my_encoder import build\nnumber = 3\ndef no(in_channels, image_size): return 5\n"
    )
    encoder = build_encoder("here_alone:build", 3, 32, model_args="width=4")
    assert encoder.feature_dim == 16
    assert sys.path.count(os.getcwd()) == 1
    build_encoder("here_alone:build", 3, 32)
    assert sys.path.count(os.getcwd()) == 1
    with pytest.raises(ValueError, match="here_alone:no must give a torch.nn.Module, and gives int"):
        build_encoder("here_alone:no", 3, 32)
    with pytest.raises(ValueError, match="must be a function of here_alone"):
        build_encoder("here_alone:number", 3, 32)
    assert my_encoder.build(3, 32, 4)(torch.zeros(1, 3, 32, 32)).shape == (1, 16)


def test_encoders_by_name_have_their_settings_in_their_description():
    encoder = build_encoder("resnet18", 2, 80, norm="group", width=0.25)
    images = {"name": "resnet18", "in_channels": 2, "image_size": 80, "norm": "group"}
    assert encoder.description == images | {"width": 0.25, "stem": "imagenet"}
    assert build_encoder("resnet18", 2, 64, width=0.25).description["stem"] == "small"
    assert build_encoder("resnet18", 2, 64, width=0.25, stem="imagenet").conv1.kernel_size == (7, 7)
    auto = build_encoder("auto", 1, 16, width=0.5)
    assert isinstance(auto, SmallCNN)
    images = {"name": "small-cnn", "in_channels": 1, "image_size": 16, "norm": "batch"}
    assert auto.description == images | {"width": 0.5, "pool": 2, "early_pool": 0}
    with pytest.raises(ValueError, match="small-cnn reads no stem; there are width, pool, early_pool"):
        build_encoder("small-cnn", 1, 16, stem="small")
    for name, normalization in (("resnet50", IMAGENET), ("small-cnn", None)):
        assert ENCODERS.read(name, Values({})).normalization() == normalization
    with pytest.raises(ValueError, match=r"given from Python \(Net\): pass encoder="):
        build_encoder("python:Net", 1, 16)
    with pytest.raises(ValueError, match="small-cnn has no published weights"):
        ENCODERS.read("small-cnn", Values({})).published()
    weights = {"a": torch.zeros(1)}
    assert ENCODERS.read("small-cnn", Values({})).translated(weights, auto) is weights


@pytest.mark.parametrize(("pool", "early", "needed"), [(2, 0, 16), (3, 0, 24), (1, 5, 20)])
def test_the_small_cnn_needs_a_pixel_for_each_place(pool, early, needed):
    build_encoder("small-cnn", 1, needed, width=0.25, pool=pool, early_pool=early)
    with pytest.raises(ValueError, match=f"needs images of {needed} pixels, got {needed - 1}"):
        build_encoder("small-cnn", 1, needed - 1, width=0.25, pool=pool, early_pool=early)
    assert SmallCNN().feature_dim == 512
    assert [m.out_channels for m in SmallCNN(2, width=0.5).blocks if isinstance(m, nn.Conv2d)] == [16, 32, 64, 64]
    assert SmallCNN().blocks[0].in_channels == 1


def test_a_resnet_that_computes_again_gives_the_same_in_training_only():
    torch.manual_seed(0)
    encoder = ResNet18(width=0.125, stem="small", norm="group")
    x = torch.randn(2, 3, 16, 16)
    expected = encoder(x)
    encoder.set_grad_checkpointing()
    computed = []
    encoder.layer1.register_forward_pre_hook(lambda *_: computed.append(1))
    again = encoder(x)
    torch.testing.assert_close(again, expected)
    again.sum().backward()
    assert len(computed) == 2
    encoder.eval()(x).sum().backward()
    assert len(computed) == 3
    encoder.set_grad_checkpointing(False)
    assert not encoder.recomputes
    with pytest.raises(ValueError, match="stem must be 'imagenet' or 'small', got 'auto'"):
        ResNet18(stem="auto")


def test_fewer_places_than_tokens_are_no_grid():
    assert _other_grid(torch.zeros(1, 17, 2), 3) is None
    assert _other_grid(torch.zeros(1, 17, 2), 5).shape == (1, 5, 2)
