"""The encoders that come with the package."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from experiments.zoo import digits
from kvicreg import load_encoder
from kvicreg.cli import main
from kvicreg.evaluation.evaluate import evaluate
from kvicreg.evaluation.export import export
from kvicreg.explore.encoders import open_encoder
from kvicreg.report.read import read_run
from kvicreg.runs import Settings, zoo
from kvicreg.runs.start import unlike_start
from kvicreg.runs.zoo import ZOO, zoo_names
from kvicreg.training.replay import replay
from kvicreg.training.run import train


@pytest.mark.parametrize("name", zoo_names())
def test_an_encoder_comes_as_its_card_says(name):
    encoder, folder = load_encoder(name), ZOO / name.removeprefix("zoo:")
    scores, card = encoder.description["results"], (folder / "card.md").read_text()
    assert digits(encoder) == pytest.approx(scores["digits"], abs=0.002)
    assert all(f"| {100 * scores[name]:.1f} | " in card for name in ("probe", "probe_few", "knn"))
    assert f"{100 * scores['digits']:.1f} % of 2,000 others" in card
    assert encoder.description["sha256"] in card
    assert (folder / "encoder.safetensors").stat().st_size < 10_000_000
    weights = load_file(folder / "encoder.safetensors").values()
    assert {weight.dtype for weight in weights if weight.is_floating_point()} == {torch.float16}


def test_training_starts_from_one_and_takes_its_encoder(tmp_path, capsys):
    small = {"images": 64, "batch_size": 32, "epochs": 1, "projector_hidden": 16, "projector_outputs": 16}
    settings = Settings.of(data="mnist-small", init="zoo:mnist", freeze="all", out=str(tmp_path / "run"), **small)
    trained = load_encoder(train(settings)).encoder.state_dict()
    assert "Starts from zoo:mnist: " in capsys.readouterr().out
    published = load_encoder("zoo:mnist").encoder.state_dict()
    assert all(torch.equal(value, published[key]) for key, value in trained.items())


def test_a_grey_one_reads_files_in_grey(tmp_path, capsys):
    (tmp_path / "scans").mkdir()
    for number in range(40):
        Image.new("L", (28, 28), 6 * number).save(tmp_path / "scans" / f"{number}.png")
    settings = {"init": "zoo:mnist", "batch_size": 8, "epochs": 1, "out": str(tmp_path / "run")}
    run = train(Settings.of(data=str(tmp_path / "scans"), **settings))
    assert "channels: 1" in (run / "config.yaml").read_text()
    out = capsys.readouterr().out
    assert "100.0% of the encoder's numbers" in out
    assert "has been trained on" not in out


def test_training_on_images_unlike_those_of_one_is_told():
    model = Settings.of(init="zoo:mnist").model
    assert unlike_start(model, (1, 28, 28)) == []
    assert unlike_start(model, (3, 64, 64)) == [
        "zoo:mnist has been trained on 28x28 grey images; these are read as 64x64 colour images."
    ]


@pytest.mark.parametrize("command", [evaluate, read_run, replay])
def test_what_comes_with_the_package_is_never_written_to(command):
    with pytest.raises(ValueError, match="zoo:mnist comes with kvicreg and is only read.*--init zoo:mnist"):
        command("zoo:mnist")


def test_resuming_one_is_refused(capsys):
    assert main(["train", "--resume", "zoo:mnist"]) == 1
    assert "zoo:mnist comes with kvicreg" in capsys.readouterr().err


def test_it_is_exported_and_looked_at_like_a_run(tmp_path):
    assert export("zoo:mnist", "torch", tmp_path / "digits.pt2").error < 1e-4
    assert open_encoder("zoo:mnist").feature_dim == load_encoder("zoo:mnist").feature_dim


@pytest.mark.parametrize(("format", "name"), [("onnx", "encoder.onnx"), ("timm", "encoder-timm")])
def test_an_export_of_one_needs_a_place(format, name):
    with pytest.raises(ValueError, match=f"zoo:mnist comes with kvicreg and is only read: .* --out {name}$"):
        export("zoo:mnist", format)


def test_a_misspelt_name_is_told_apart():
    with pytest.raises(FileNotFoundError, match=r"^there is no encoder zoo:cifar; did you mean zoo:cifar10\?$"):
        load_encoder("zoo:cifar")


@pytest.mark.parametrize("command", [load_encoder, evaluate])
def test_a_name_that_is_not_there_is_told_with_those_that_are(command):
    with pytest.raises(FileNotFoundError, match=r"no encoder zoo:cats; there are .*zoo:mnist"):
        command("zoo:cats")


def test_a_changed_file_is_refused(tmp_path, monkeypatch):
    shutil.copytree(ZOO / "mnist", tmp_path / "mnist")
    monkeypatch.setattr(zoo, "ZOO", tmp_path)
    assert load_encoder("zoo:mnist").description["data"] == "mnist"
    description = tmp_path / "mnist" / "encoder.json"
    description.write_text(json.dumps(json.loads(description.read_text()) | {"sha256": "0"}))
    with pytest.raises(ValueError, match="not the encoder that was published"):
        load_encoder("zoo:mnist")
