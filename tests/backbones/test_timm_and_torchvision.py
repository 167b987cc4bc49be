"""Models of timm and torchvision, narrow where the full one takes long, trained, resumed, evaluated and handed over."""

from __future__ import annotations

import pytest
import torch
from every_step import images, put_through, same_output, settings
from torch import nn

from kvicreg.evaluation.export import export
from kvicreg.models import ResNet50, build_encoder
from kvicreg.models.blocks import blocks
from kvicreg.runs import RunFolder, load_encoder
from kvicreg.training.run import train
from tests.torchvision_stub import import_or_skip

timm = import_or_skip("timm")
torchvision = import_or_skip("torchvision")

SMALL_VIT = "embed_dim=48,depth=2,num_heads=3"
MODELS = {
    "resnet50": "channels=[8,8,16,16],stem_width=8",
    "vit_tiny_patch16_224": SMALL_VIT,
    "vit_medium_patch16_reg4_gap_256": SMALL_VIT,
    "convnext_atto": "dims=[16,24,32,48],depths=[1,1,1,1]",
    "efficientnet_b0": None,
    "mobilenetv3_small_050": None,
}


@pytest.mark.parametrize(("name", "arguments"), MODELS.items(), ids=[*MODELS])
def test_a_model_of_timm_is_trained_resumed_evaluated_and_loaded_by_timm(name, arguments, tmp_path):
    run = put_through(f"timm:{name}", tmp_path, model_args=arguments)
    assert type(load_encoder(run.path).module).__module__.startswith("timm.models.")
    written = export(run.path, "timm")
    assert not list(written.path.glob("*.bin"))  # weights are no pickle
    loaded = timm.create_model(f"local-dir:{written.path}", pretrained=True)
    same_output(run, loaded.eval())
    assert loaded.pretrained_cfg["mean"] == pytest.approx(load_encoder(run.path).mean.flatten().tolist())


def test_resnet18_of_torchvision_is_trained_resumed_evaluated_and_loaded_by_torchvision(tmp_path):
    run = put_through("torchvision:resnet18", tmp_path)
    from safetensors.torch import load_file

    loaded = torchvision.models.get_model("resnet18")
    loaded.fc = nn.Identity()
    loaded.load_state_dict(load_file(run.path / "encoder.safetensors"))
    same_output(run, loaded.eval())
    assert isinstance(load_encoder(run.path).module, torchvision.models.ResNet)
    same_output(run, timm.create_model(f"local-dir:{export(run.path, 'timm').path}", pretrained=True).eval())


def test_our_resnet50_is_the_one_of_torchvision_and_of_timm(tmp_path):
    ours, x = ResNet50(width=1.0).eval(), torch.randn(2, 3, 64, 64)
    for theirs in (torchvision.models.resnet50(), timm.create_model("resnet50")):
        theirs.fc = nn.Identity()
        theirs.load_state_dict(ours.state_dict())
        torch.testing.assert_close(theirs.eval()(x), ours(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("timm:vit_tiny_patch16_224", 70, "patches of 16 pixels, and 70 is no multiple of that: pass image_size=64"),
        ("timm:vit_small_patch14_dinov2", 64, "pass image_size=70"),
        ("torchvision:vit_b_16", 40, "pass image_size=32"),
        ("timm:resnet5", 64, "did you mean 'resnet50'"),
        ("torchvision:resnet19", 64, "did you mean 'resnet18'"),
        ("timm:inception_v3", 32, "its usual size is 299: --image-size 299"),
    ],
)
def test_what_does_not_fit_is_told_with_the_nearest_that_does(name, size, message):
    with pytest.raises(ValueError, match=message):
        build_encoder(name, 3, size)


def test_arguments_of_the_library_reach_it_or_are_told():
    encoder = build_encoder("timm:vit_tiny_patch16_224", 5, 32, model_args="depth=1,embed_dim=48,num_heads=3")
    assert len(encoder.blocks) == 1
    assert encoder(torch.zeros(2, 5, 32, 32)).shape == (2, 48)
    with pytest.raises(ValueError, match="can't be built: TypeError.*'colour'"):
        build_encoder("timm:vit_tiny_patch16_224", 3, 32, model_args="colour=red")
    token, mean = (
        build_encoder("timm:vit_tiny_patch16_224", 3, 32, model_args=SMALL_VIT, pooling=pooling).global_pool
        for pooling in ("model", "avg")
    )
    assert (token, mean) == ("token", "avg")
    assert build_encoder("torchvision:resnet18", 1, 32)(torch.zeros(2, 1, 32, 32)).shape == (2, 512)


def test_published_weights_of_timm_are_adapted_to_size_and_channels(tmp_path, monkeypatch):
    model = timm.create_model("vit_tiny_patch16_224", embed_dim=48, depth=2, num_heads=3)
    real = timm.create_model
    monkeypatch.setattr(  # what a network would bring
        timm, "create_model", lambda *a, pretrained=False, **k: model if pretrained else real(*a, **k)
    )
    given = settings("timm:vit_tiny_patch16_224", tmp_path, model_args=SMALL_VIT, pretrained=True, max_steps=1)
    run = RunFolder(train(given, data=images(64), quiet=True))
    assert run.settings.model.normalize == "0.5,0.5,0.5/0.5,0.5,0.5"
    start = run.starting_encoder()
    assert start.module.blocks[0].attn.qkv.weight.equal(model.blocks[0].attn.qkv.weight)
    assert start.module.pos_embed.shape == (1, 17, 48)
    assert start.module.pos_embed[:, 0].equal(model.pos_embed[:, 0])
    assert not load_encoder(run.path).module.blocks[0].attn.qkv.weight.equal(model.blocks[0].attn.qkv.weight)


def test_layouts_that_timm_translates_are_read(tmp_path):
    """DINOv2 with registers, as its authors publish it: other names, and one position more."""
    encoder = "timm:vit_small_patch14_reg4_dinov2"
    model = timm.create_model(encoder[5:], num_classes=0, img_size=70, embed_dim=48, depth=1, num_heads=3)
    published = dict(model.state_dict())
    published["register_tokens"] = published.pop("reg_token")
    published["pos_embed"] = torch.randn(1, 26, 48)
    published["mask_token"] = torch.zeros(1, 48)
    torch.save(published, tmp_path / "dinov2.pth")
    from kvicreg.runs import Settings
    from kvicreg.training.build import build_method

    arguments = {"model_args": "embed_dim=48,depth=1,num_heads=3", "image_size": 70, "channels": 3}
    method = build_method(Settings.of(encoder=encoder, init=str(tmp_path / "dinov2.pth"), **arguments))
    assert method.encoder.reg_token.equal(published["register_tokens"])
    assert method.encoder.pos_embed.equal(published["pos_embed"][:, 1:])
    assert "12 of 12" in method.encoder.notes[0] or "100.0%" in method.encoder.notes[0]


def test_a_backbone_of_lightly_loads_by_its_order(tmp_path):
    import_or_skip("lightly")
    trunk = torchvision.models.resnet18()
    backbone = nn.Sequential(*list(trunk.children())[:-1])  # as lightly's examples make it
    weights = {f"backbone.{name}": value for name, value in backbone.state_dict().items()}
    torch.save({"state_dict": weights | {"projection_head.0.weight": torch.zeros(4, 512)}}, tmp_path / "lightly.ckpt")
    from kvicreg.runs import Settings
    from kvicreg.training.build import build_method

    given = Settings.of(
        encoder="resnet18", stem="imagenet", init=str(tmp_path / "lightly.ckpt"), image_size=64, channels=3
    )
    method = build_method(given)
    assert "matched in order because names differ" in method.encoder.notes[0]
    assert method.encoder.layer4[1].conv2.weight.equal(trunk.layer4[1].conv2.weight)


def test_blocks_follow_the_library():
    names = [block.name for block in blocks(build_encoder("timm:vit_tiny_patch16_224", 3, 32, model_args=SMALL_VIT))]
    assert names == ["patch_embed", "blocks.0", "blocks.1", "norm"]
    names = [block.name for block in blocks(build_encoder("timm:efficientnet_b0", 3, 32))]
    assert names[:4] == ["conv_stem", "bn1", "blocks.0.0", "blocks.1.0"]
