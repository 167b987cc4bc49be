"""Encoders and the projector have the published shapes, and survive being stored."""

from __future__ import annotations

import importlib
import json

import pytest
import torch
from torch import nn

from kvicreg.models import Projector, ResNet18, SmallCNN, build_encoder
from kvicreg.runs import load_encoder, save_encoder
from kvicreg.storage import write_atomically


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_resnet18_has_the_published_number_of_parameters():
    trunk = ResNet18(stem="imagenet")
    assert parameters(trunk) == 11_176_512
    assert parameters(trunk) + parameters(nn.Linear(512, 1000)) == 11_689_512
    assert parameters(ResNet18(stem="small")) == 11_176_512 - 64 * 3 * (49 - 9)
    assert parameters(ResNet18(in_channels=1)) == 11_176_512 - 64 * 2 * 49


def test_resnet18_has_the_published_layer_shapes():
    shapes = {}
    net = ResNet18(stem="imagenet").eval()
    for name in ("conv1", "maxpool", "layer1", "layer2", "layer3", "layer4"):
        getattr(net, name).register_forward_hook(lambda _m, _i, out, name=name: shapes.update({name: out.shape[1:]}))
    features = net(torch.zeros(1, 3, 224, 224))
    assert shapes == {
        "conv1": (64, 112, 112), "maxpool": (64, 56, 56), "layer1": (64, 56, 56),
        "layer2": (128, 28, 28), "layer3": (256, 14, 14), "layer4": (512, 7, 7),
    }  # fmt: skip
    assert features.shape == (1, 512)


def test_the_small_stem_keeps_the_size_of_the_image():
    sides = []
    net = ResNet18(width=0.25, stem="small").eval()
    for name in ("conv1", "layer1", "layer2", "layer4"):
        getattr(net, name).register_forward_hook(lambda _m, _i, out: sides.append(out.shape[-1]))
    net(torch.zeros(1, 3, 32, 32))
    assert sides == [32, 32, 16, 4]


def test_resnet18_names_its_parameters_as_common_checkpoints_do():
    names = set(ResNet18().state_dict())
    expected = {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight"}
    assert expected | {"layer4.1.bn2.bias"} <= names
    assert len(names) == 120  # the 122 of the published network without its fc


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["small-cnn", "resnet18"])
def test_encoders_give_features_of_the_width_they_announce(name, channels):
    encoder = build_encoder(name, channels, 32, width=0.25)
    assert encoder(torch.randn(2, channels, 32, 32)).shape == (2, encoder.feature_dim)


def test_small_cnn_keeps_its_second_map_beside_the_last():
    encoder = build_encoder("small-cnn", 1, 28, width=0.5, pool=3, early_pool=4).eval()
    plain = build_encoder("small-cnn", 1, 28, width=0.5, pool=3).eval()
    plain.load_state_dict(encoder.state_dict())
    x = torch.randn(2, 1, 28, 28)
    second = []
    encoder.blocks[7].register_forward_hook(lambda _m, _i, out: second.append(out))
    features = encoder(x)
    assert features.shape == (2, 64 * 9 + 32 * 16) == (2, encoder.feature_dim)
    torch.testing.assert_close(features[:, : 64 * 9], plain(x))
    torch.testing.assert_close(features[:, 64 * 9 :].view(2, 32, 4, 4), nn.functional.adaptive_avg_pool2d(second[0], 4))
    with pytest.raises(ValueError, match="early_pool=8, needs images of 32 pixels, got 28"):
        build_encoder("small-cnn", 1, 28, early_pool=8)


def test_stem_follows_the_image_size_when_it_is_auto():
    assert build_encoder("resnet18", 3, 32, width=0.1).conv1.stride == (1, 1)
    assert build_encoder("resnet18", 3, 96, width=0.1).conv1.stride == (2, 2)


@pytest.mark.parametrize("name", ["small-cnn", "resnet18"])
def test_group_norm_leaves_no_statistic_across_samples(name):
    encoder = build_encoder(name, 1, 16, width=0.25, norm="group")
    x = torch.randn(4, 1, 16, 16)
    torch.testing.assert_close(encoder(x)[:1], encoder(x[:1]), rtol=1e-4, atol=1e-5)


def test_projector_has_the_layers_asked_for():
    widths = [m.weight.shape for m in Projector(8, 16, 4, layers=3) if isinstance(m, nn.Linear)]
    assert widths == [(16, 8), (16, 16), (4, 16)]
    assert [m.weight.shape for m in Projector(8, 16, 4, layers=1)] == [(4, 8)]


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'resnet18'"):
        build_encoder("resnet-18")
    with pytest.raises(ValueError, match="norm must be"):
        SmallCNN(norm="layer")


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_encoders_of_other_packages_work_or_say_what_is_missing(package):
    name = f"{package}:resnet18"
    try:
        importlib.import_module(package)
    except (ImportError, RuntimeError):
        with pytest.raises(ImportError, match=package):
            build_encoder(name, 3, 32)
    else:
        encoder = build_encoder(name, 3, 32).eval()
        assert encoder(torch.randn(2, 3, 32, 32)).shape == (2, encoder.feature_dim)


@pytest.mark.parametrize("projector", [False, True])
def test_a_saved_encoder_gives_the_same_features_when_loaded(tmp_path, projector):
    encoder, head = build_encoder("small-cnn", 1, 16, width=0.25), Projector(128, 16, 8)
    encoder(torch.randn(8, 1, 16, 16))  # moves the running statistics
    save_encoder(encoder, tmp_path, image_size=16, mean=[0.2], std=[0.4], data="toy", projector=head)
    loaded = load_encoder(tmp_path, projector=projector)
    images = torch.randint(0, 256, (4, 1, 16, 16), dtype=torch.uint8)
    x = (images / 255 - 0.2) / 0.4
    expected = encoder.eval()(x)
    expected = head.eval()(expected) if projector else expected
    torch.testing.assert_close(loaded(loaded.preprocess(images)), expected)
    assert loaded.feature_dim == expected.shape[1]
    assert not loaded.training
    assert json.loads((tmp_path / "encoder.json").read_text())["data"] == "toy"


def test_somebodys_own_encoder_is_filled_when_it_is_passed(tmp_path):
    mine = nn.Sequential(nn.Flatten(), nn.Linear(16, 5))
    mine.feature_dim = 5
    save_encoder(mine, tmp_path, image_size=4, mean=[0.0], std=[1.0])
    with pytest.raises(ValueError, match="encoder=module"):
        load_encoder(tmp_path)
    other = nn.Sequential(nn.Flatten(), nn.Linear(16, 5))
    x = torch.randn(2, 1, 4, 4)
    torch.testing.assert_close(load_encoder(tmp_path, encoder=other)(x), mine(x))


def test_preprocess_brings_any_image_to_the_encoders_shape(tmp_path):
    save_encoder(build_encoder("small-cnn", 1, 16), tmp_path, image_size=16, mean=[0.5], std=[0.5])
    loaded = load_encoder(tmp_path)
    white = torch.full((2, 3, 40, 30), 255, dtype=torch.uint8)
    torch.testing.assert_close(loaded.preprocess(white), torch.ones(2, 1, 16, 16))
    with pytest.raises(ValueError, match="uint8"):
        loaded.preprocess(white.float())


def test_a_folder_without_an_encoder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"encoder\.json"):
        load_encoder(tmp_path)


def test_a_failed_write_leaves_the_old_content(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "not bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
