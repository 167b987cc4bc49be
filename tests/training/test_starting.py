"""What learns, how fast and from when on: frozen blocks, rates by layer, the projector first, a moving average."""

from __future__ import annotations

import lightning.pytorch as pl
import pytest
import torch
from safetensors.torch import load_file

from kvicreg.runs import RunFolder, Settings, load_encoder
from kvicreg.training.build import build_method, learning_rates
from kvicreg.training.module import SelfSupervised
from kvicreg.training.run import train

RESNET = {"encoder": "resnet18", "width": 0.125, "image_size": 16, "channels": 1}


def weights(folder):
    return load_file(folder / "encoder.safetensors")


def small(tmp_path, **more) -> Settings:
    return Settings.of(
        **RESNET, out=str(tmp_path), batch_size=32, epochs=1, max_steps=3, projector_layers=2, projector_hidden=16,
        projector_outputs=16, probe_images=0, spectrum_images=8, accelerator="cpu", **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("freeze", "frozen"), [("conv1,layer1", ("conv1", "layer1")), ("3", ("conv1", "bn1", "layer1.0"))]
)
def test_frozen_blocks_and_their_statistics_do_not_move(freeze, frozen, tmp_path):
    settings = small(tmp_path, freeze=freeze)
    before = build_method(settings).encoder.state_dict()
    after = weights(train(settings, quiet=True))
    for name, value in after.items():
        if name.startswith(frozen):
            assert value.equal(before[name]), name
    assert not after["layer4.0.conv1.weight"].equal(before["layer4.0.conv1.weight"])
    assert not after["layer4.0.bn1.running_mean"].equal(before["layer4.0.bn1.running_mean"])


def test_a_frozen_encoder_is_told_and_only_its_projector_learns(tmp_path, capsys):
    settings = small(tmp_path, freeze="all")
    before = build_method(settings).encoder.state_dict()
    after = weights(train(settings))
    assert all(value.equal(before[name]) for name, value in after.items())
    assert "Frozen: conv1 to layer4.1, 100% of the encoder." in capsys.readouterr().out


def test_statistics_can_stay_while_weights_learn(tmp_path):
    settings = small(tmp_path, freeze_statistics=True)
    before = build_method(settings).encoder.state_dict()
    after = weights(train(settings, quiet=True))
    assert all(value.equal(before[name]) for name, value in after.items() if "running" in name)
    assert not after["layer4.0.conv1.weight"].equal(before["layer4.0.conv1.weight"])


@pytest.mark.parametrize(
    ("freeze", "message"), [("layer9", "no block 'layer9'; did you mean 'layer"), ("99", "the encoder has 10 blocks")]
)
def test_a_block_that_is_not_there_is_told(freeze, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        build_method(small(tmp_path, freeze=freeze))


def test_rates_fall_from_block_to_block_towards_the_images(tmp_path):
    settings = small(tmp_path, layer_decay=0.5)
    method = build_method(settings)
    optimizer = settings.optimizer.build(method, learning_rates(method, settings))
    rate = {id(p): group.get("rate", 1.0) for group in optimizer.param_groups for p in group["params"]}
    of = {name: rate[id(p)] for name, p in method.named_parameters()}
    assert of["projector.0.weight"] == 1
    assert of["encoder.layer4.1.conv2.weight"] == of["encoder.layer4.1.bn1.bias"] == 1
    assert of["encoder.layer4.0.conv1.weight"] == 0.5
    assert of["encoder.conv1.weight"] == 0.5**9
    assert len(rate) == len(list(method.parameters()))


class Rates(pl.Callback):
    """Notes the learning rate of the encoder and of the projector before every step."""

    def __init__(self):
        self.seen = []

    def on_before_optimizer_step(self, trainer, module, optimizer):
        rates = {bool(group.get("waits")): group["lr"] for group in optimizer.param_groups}
        self.seen.append((rates[True], rates[False]))


def test_the_encoder_waits_for_the_projector(tmp_path):
    rates = Rates()
    settings = small(tmp_path, projector_epochs=0.125, warmup_epochs=0.0625).replace(max_steps=None, images=512)
    train(settings, quiet=True, callbacks=[rates])  # 16 steps: 2 of them wait, and 1 warms up
    shares = [encoder / projector for encoder, projector in rates.seen]
    assert shares[:5] == [0, 0, 0.5, 1, 1]
    still = small(tmp_path / "still", projector_epochs=1)
    before = build_method(still).encoder.state_dict()
    after = weights(train(still, quiet=True))
    assert after["layer4.0.conv1.weight"].equal(before["layer4.0.conv1.weight"])


def test_the_average_of_the_weights_is_what_is_left_and_resumes_bit_for_bit(tmp_path):
    plain = weights(train(small(tmp_path / "plain"), quiet=True))
    run = train(small(tmp_path / "run", ema=0.9), quiet=True)
    average = weights(run)
    before = build_method(small(tmp_path)).encoder.state_dict()
    name = "layer4.0.conv1.weight"
    assert (average[name] - before[name]).norm() < (plain[name] - before[name]).norm()
    assert not average["bn1.running_mean"].equal(plain["bn1.running_mean"])
    of_checkpoint = load_encoder(RunFolder(run).checkpoint("last"), projector=True)
    assert of_checkpoint.encoder.state_dict()[name].equal(average[name])
    train(small(tmp_path / "cut", ema=0.9).replace(max_steps=1), quiet=True)
    cut = weights(train(small(tmp_path / "cut", ema=0.9), quiet=True, resume=True))
    assert all(cut[name].equal(average[name]) for name in average)


def test_the_average_follows_its_formula():
    settings = Settings.of(**RESNET, ema=0.5, projector_hidden=16, projector_outputs=16)
    module = SelfSupervised(build_method(settings), settings)
    assert module.encoder is not module.method.encoder
    start = module.encoder.conv1.weight.clone()
    module.method.encoder.conv1.weight.data.add_(1.0)
    module.average.follow(module.method.encoder, module.method.projector, momentum=0.5, buffers=True)
    torch.testing.assert_close(module.encoder.conv1.weight, start + 0.5)


def test_activations_computed_again_give_the_same_gradient(tmp_path):
    gradients = []
    for again in (False, True):
        method = build_method(small(tmp_path, checkpoint_activations=again, norm="group"))
        x = torch.randn(8, 1, 16, 16, generator=torch.Generator().manual_seed(0))
        method.encoder(x).square().sum().backward()
        gradients.append(method.encoder.conv1.weight.grad)
        assert method.encoder.recomputes is again
    torch.testing.assert_close(*gradients)
    with pytest.raises(ValueError, match="checkpoint_activations: SmallCNN has no set_grad_checkpointing"):
        build_method(Settings.of(checkpoint_activations=True, image_size=16, channels=1))


def test_a_run_resumes_without_the_file_that_it_started_from(tmp_path):
    first = train(small(tmp_path / "first"), quiet=True)
    settings = small(tmp_path / "second", init=str(first / "encoder.safetensors"), seed=5)
    train(settings.replace(max_steps=1), quiet=True)
    (first / "encoder.safetensors").unlink()
    (first / "encoder.json").unlink()
    train(settings, quiet=True, resume=True)
