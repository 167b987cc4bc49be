"""Images and encoders from Python are recorded as what they are, asked for by name, and never replaced by others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kvicreg.cli import main
from kvicreg.data import ArrayData, load
from kvicreg.evaluation.evaluate import EvaluationOptions, evaluate
from kvicreg.measures.features import recorded_source
from kvicreg.runs import RunFolder, Settings
from kvicreg.selection import select as studies
from kvicreg.selection.options import SelectOptions
from kvicreg.training import train
from kvicreg.training.replay import replay


class Flat(nn.Module):
    feature_dim = 8

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(256, 8))

    def forward(self, x):
        return self.layers(x)


def config(folder):
    return (folder / "config.yaml").read_text()


@pytest.fixture
def settings(tiny_config):
    """Settings that say nothing of data, as a user leaves them."""
    return Settings.of(**{name: value for name, value in tiny_config.given().items() if name != "data"})


def test_the_config_says_what_the_images_are(settings, tiny_data):
    folder = train(settings, data=tiny_data, quiet=True)
    assert "data: python:squares (96 images 1x16x16, fingerprint " in config(folder)
    assert "mnist" not in config(folder)
    assert RunFolder(folder).settings.data.short_name == "squares"
    assert train(settings, data=tiny_data, quiet=True, resume=True) == folder


def test_images_that_the_settings_load_are_recorded_by_their_source(settings):
    settings = settings.replace(data="mnist-small", images=64, max_steps=1)
    folder = train(settings, data=settings.data.load(), quiet=True)
    assert RunFolder(folder).settings.data.source == "mnist-small"
    otherwise = settings.replace(pages="channels").data
    assert recorded_source(settings.data.load(), otherwise).startswith("python:"), "read by other settings"
    others = load("mnist-small").subset(range(64))
    with pytest.raises(ValueError, match=r"trained with data mnist-small, not python:mnist-small \(64 images"):
        train(settings.replace(max_steps=2), data=others, quiet=True, resume=True)


def test_commands_ask_for_the_images_and_take_no_others(settings, tiny_data, tmp_path, capsys):
    folder = train(settings.replace(max_steps=4), data=tiny_data, quiet=True)
    asks = "the images of this run were given from Python (squares (96 images"
    for words in (["train", "--resume", str(folder), "--max-steps", "5"], ["evaluate", str(folder)]):
        assert main(words) == 1
        assert asks in capsys.readouterr().err
    assert main(["train", "--config", str(folder / "config.yaml"), "--out", str(tmp_path / "other")]) == 1
    assert asks in capsys.readouterr().err
    RunFolder(folder).write_fault(
        0, batch=5, step=5, epoch=1, seed=0, loss=1.0, images=torch.zeros(1).numpy(), samples=torch.zeros(1).numpy()
    )
    with pytest.raises(ValueError, match="given from Python"):
        replay(folder, quiet=True)
    changed = ArrayData(255 - tiny_data.images, tiny_data.labels, name="squares")
    with pytest.raises(ValueError, match=r"trained with data python:squares .*, not python:squares"):
        train(settings.replace(max_steps=5), data=changed, quiet=True, resume=True)


def test_they_are_evaluated_when_given_again(settings, tiny_data, tmp_path):
    folder = train(settings, data=tiny_data, quiet=True)
    options = EvaluationOptions(robustness_images=0, map_images=0)
    results = evaluate(folder, options, data=tiny_data)
    assert results["data"]["train_images"] + results["data"]["test_images"] == 96
    given = evaluate(folder, options, data=tiny_data, test=tiny_data.subset(range(30)))["data"]
    assert (given["test_images"], given["adaptation"]) == (30, "as they are")
    with pytest.raises(ValueError, match="other images"):
        evaluate(folder, options, data=tiny_data.subset(range(90)))


def test_an_encoder_from_python_is_recorded_and_asked_for(settings, tiny_data):
    settings = settings.replace(max_steps=2)
    folder = train(settings, data=tiny_data, encoder=Flat(), quiet=True)
    assert "encoder: python:Flat" in config(folder)
    longer = settings.replace(max_steps=4)
    with pytest.raises(ValueError, match=r"encoder of this run was given from Python \(Flat\): pass encoder="):
        train(longer, data=tiny_data, quiet=True, resume=True)
    train(longer, data=tiny_data, encoder=Flat(), quiet=True, resume=True)
    folder = train(settings.replace(out=str(folder) + "2"), data=tiny_data, quiet=True)
    with pytest.raises(ValueError, match="trained with encoder small-cnn, not python:Flat"):
        train(longer.replace(out=str(folder)), data=tiny_data, encoder=Flat(), quiet=True, resume=True)


def test_a_study_of_images_from_python_asks_for_them(settings, tiny_data, tmp_path):
    shared = settings.replace(out=None)
    options = SelectOptions.of(budget="8steps", candidates=["rbf", "linear"], full=False)
    studies.select(tmp_path / "study", shared, options, data=tiny_data, quiet=True, say=lambda line: None)
    with pytest.raises(ValueError, match="given from Python"):
        studies.resume(tmp_path / "study", quiet=True, say=lambda line: None)
    studies.resume(tmp_path / "study", data=tiny_data, quiet=True, say=lambda line: None)
