"""Models of transformers, and a module of one's own: trained, resumed, evaluated and handed over."""

from __future__ import annotations

import json
from types import SimpleNamespace

import my_encoder
import pytest
import torch
from every_step import images, put_through, same_output, settings
from safetensors.torch import load_file

from kvicreg.evaluation.export import export
from kvicreg.models import build_encoder, transformers_models
from kvicreg.models.blocks import blocks
from kvicreg.models.transformers_models import TransformersEncoder
from kvicreg.runs import RunFolder, load_encoder
from kvicreg.training.run import train

transformers = pytest.importorskip("transformers")

SMALL = "hidden_size=24,num_hidden_layers=2,num_attention_heads=3"
MODELS = {"vit": f"{SMALL},intermediate_size=48,patch_size=16", "dinov2": f"{SMALL},patch_size=16"}


@pytest.mark.parametrize(("kind", "arguments"), MODELS.items(), ids=[*MODELS])
def test_a_model_of_transformers_is_trained_resumed_evaluated_and_loaded_by_transformers(kind, arguments, tmp_path):
    run = put_through(f"hf:{kind}", tmp_path, model_args=arguments)
    assert isinstance(load_encoder(run.path).module, transformers.PreTrainedModel)
    folder = export(run.path, "hf").path
    loaded = transformers.AutoModel.from_pretrained(folder).eval()
    same_output(run, lambda x: loaded(pixel_values=x).last_hidden_state[:, 0])
    processor = json.loads((folder / "preprocessor_config.json").read_text())
    encoder = load_encoder(run.path)
    assert processor["image_mean"] == pytest.approx(encoder.mean.flatten().tolist())
    assert processor["size"] == {"height": encoder.image_size, "width": encoder.image_size}


def test_a_module_of_ones_own_is_trained_resumed_evaluated_and_loaded(tmp_path):
    run = put_through("my_encoder:build", tmp_path, model_args="width=6")
    loaded = my_encoder.build(3, 64, width=6)
    loaded.load_state_dict(load_file(run.path / "encoder.safetensors"))
    same_output(run, loaded.eval())


def test_published_weights_are_those_of_the_folder_or_the_hub(tmp_path):
    config = transformers.AutoConfig.for_model(
        "dinov2", hidden_size=24, num_hidden_layers=2, num_attention_heads=3, patch_size=16, image_size=96
    )
    model = transformers.AutoModel.from_config(config)
    model.save_pretrained(tmp_path / "model")
    about = {"image_processor_type": "ViTImageProcessor", "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}
    (tmp_path / "model" / "preprocessor_config.json").write_text(json.dumps(about))
    given = settings(f"hf:{tmp_path / 'model'}", tmp_path / "run", pretrained=True).replace(max_steps=1)
    run = RunFolder(train(given, data=images(64), quiet=True))
    assert run.settings.model.normalize == "0.1,0.2,0.3/0.4,0.5,0.6"
    start = run.starting_encoder().module
    assert start.embeddings.position_embeddings.shape == (1, 17, 24)
    assert start.layernorm.weight.equal(model.layernorm.weight)
    assert start.encoder.layer[1].mlp.fc1.weight.equal(model.encoder.layer[1].mlp.fc1.weight)
    (tmp_path / "model" / "config.json").unlink()
    load_encoder(run.path)  # the run has the config, and needs neither folder nor network


def test_features_are_pooled_as_the_model_means_it_or_as_one_says():
    arguments = f"{SMALL},patch_size=16,num_register_tokens=4"
    of = {
        pooling: build_encoder("hf:dinov2_with_registers", 3, 32, model_args=arguments, pooling=pooling).eval()
        for pooling in ("model", "token", "avg")
    }
    x = torch.randn(2, 3, 32, 32)
    for encoder in of.values():
        encoder.load_state_dict(of["model"].state_dict())
    hidden = of["model"].model(pixel_values=x).last_hidden_state
    torch.testing.assert_close(of["model"](x), hidden[:, 0])
    torch.testing.assert_close(of["token"](x), hidden[:, 0])
    torch.testing.assert_close(of["avg"](x), hidden[:, 5:].mean(1))
    maps = "hidden_sizes=[8,8,8,8],depths=[1,1,1,1]"
    assert build_encoder("hf:convnext", 3, 64, model_args=maps)(torch.zeros(2, 3, 64, 64)).shape == (2, 8)


def test_without_registers_the_mean_is_of_all_but_the_class_token():
    encoder = build_encoder("hf:vit", 3, 32, model_args=MODELS["vit"], pooling="avg").eval()
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(encoder(x), encoder.model(pixel_values=x).last_hidden_state[:, 1:].mean(1))


@pytest.mark.parametrize(("arguments", "usual"), [("image_size=48", 48), ("image_size=[48,48]", 224)])
def test_the_usual_size_is_that_of_the_config(monkeypatch, arguments, usual):
    monkeypatch.setattr(transformers_models, "measured", lambda encoder, *given: SimpleNamespace(given=given))
    encoder = build_encoder("hf:vit", 1, 32, model_args=f"{MODELS['vit']},{arguments}")
    assert encoder.given == ("hf:vit", 1, 32, usual)


def test_blocks_of_transformers_are_its_layers():
    encoder = build_encoder("hf:vit", 3, 32, model_args=MODELS["vit"])
    assert isinstance(encoder, TransformersEncoder)
    names = [block.name for block in blocks(encoder)]
    assert (names[0], names[-1]) == ("embeddings", "layernorm")
    assert names[1:-1] in (["layers.0", "layers.1"], ["encoder.layer.0", "encoder.layer.1"])  # which 5.0 has


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:vit", "patches of 16 pixels, and 40 is no multiple of that: pass image_size=32"),
        ("tim:resnet50", "there is no module 'tim' here; did you mean 'timm:NAME'"),
        ("my_encoder:nothing", "must be a function of my_encoder with the parameters in_channels and image_size"),
        ("my_encoder:build_from_nothing", "with the parameters in_channels and image_size"),
        ("my_encoder:build_a_map", r"must map images to features \(b, width\), and gives \(1, 4, 38, 38\)"),
        ("os:system", "must be a function of os with the parameters in_channels and image_size"),
    ],
)
def test_what_does_not_fit_is_a_sentence(name, message):
    with pytest.raises(ValueError, match=message):
        build_encoder(name, 3, 40)


@pytest.mark.parametrize("arguments", ["width", "width=", "1,2", "width=f(2)"])
def test_arguments_that_are_none_are_refused(arguments):
    with pytest.raises(ValueError, match="model_args: expected NAME=VALUE"):
        build_encoder("my_encoder:build", 3, 32, model_args=arguments)
