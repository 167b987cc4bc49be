"""Recipes and config.yaml are TrainConfig: they round-trip, and every mistake is named."""

from __future__ import annotations

import ast
import dataclasses
import sys
from pathlib import Path

import pytest
import torch
import yaml
from kvicreg.training.config import TrainConfig, dump_config, from_dict, load_config, recipes
from kvicreg.training.optim import build_optimizer

import kvicreg
from kvicreg.methods import METHODS
from kvicreg.training import train
from kvicreg.training.build import build_loss
from kvicreg.training.estimate import estimate
from kvicreg.training.faults import strategy_of

FIELDS = [f.name for f in dataclasses.fields(TrainConfig)]


@pytest.fixture(scope="module")
def settings_read(tmp_path_factory) -> set[str]:
    """The settings that code outside config.py looks at while runs are built, estimated and trained."""
    read = set()

    def spy(self, name):
        code = sys._getframe(1).f_code
        ours = "kvicreg" in code.co_filename
        if ours and (Path(code.co_filename).name != "config.py" or code.co_name == "folder"):
            read.add(name)
        return object.__getattribute__(self, name)

    small = TrainConfig(
        width=0.25, batch_size=32, projector_hidden=16, projector_outputs=16, max_steps=2, probe_images=20,
        spectrum_images=16, out=str(tmp_path_factory.mktemp("runs") / "run"),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainConfig, "__getattribute__", spy)
        estimate(small)
        train(small, quiet=True)
        for method in METHODS:
            build_loss(dataclasses.replace(small, method=method))
        build_loss(dataclasses.replace(small, approximation="nystrom"))
        strategy_of(dataclasses.replace(small, devices=2))
        build_optimizer(torch.nn.Linear(2, 2), dataclasses.replace(small, optimizer="lars"))
    return read


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_is_read_by_the_code(name, settings_read):
    assert name in settings_read


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_has_help(name):
    source = Path(kvicreg.__file__).parent.joinpath("training/config.py").read_text()
    body = next(n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == "TrainConfig").body
    index = next(i for i, n in enumerate(body) if isinstance(n, ast.AnnAssign) and n.target.id == name)
    following = body[index + 1]
    assert isinstance(following, ast.Expr)
    assert isinstance(following.value.value, str)


@pytest.mark.parametrize("name", recipes())
def test_recipes_load(name):
    config = load_config(name)
    assert config.data in name or name == "demo"


def test_paper_recipes_hold_the_papers_two_settings_and_weights():
    second, first = load_config("paper-cifar10-rq"), load_config("paper-cifar10-rq-256")
    assert (second.learning_rate, second.batch_size, second.projector_layers) == (1e-3, 512, 3)
    assert (first.learning_rate, first.batch_size, first.projector_layers) == (3e-4, 256, 2)
    for config in (first, second):
        assert (config.invariance_weight, config.variance_weight, config.covariance_weight) == (1.9, 1, 8)
        assert (config.parametrization, config.encoder, config.projector_hidden) == ("paper", "resnet18", 1024)


def test_a_config_survives_yaml(tmp_path):
    config = TrainConfig(kernel="rq", learning_rate=3e-4, view={"blur": 0.5}, out="somewhere")
    (tmp_path / "c.yaml").write_text(dump_config(config))
    assert load_config(tmp_path / "c.yaml") == config


def test_numbers_are_read_as_people_write_them():
    assert from_dict(yaml.safe_load("learning_rate: 3e-4\nwidth: 2")).learning_rate == 3e-4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kernal": "rbf"}, "no setting 'kernal'; did you mean 'kernel'"),
        ({"epochs": "many"}, "epochs: expected int, got 'many'"),
        ({"epochs": True}, "epochs: expected int"),
        ({"optimizer": "adamm"}, "expected one of adam, adamw, sgd, lars, got 'adamm'; did you mean 'adam"),
        ({"view": 3}, "view: expected a table"),
        ({"epochs": 0}, "epochs must be positive, got 0"),
        ({"workers": -1}, "workers must not be negative"),
        ({"batch_size": 1}, "at least 2"),
    ],
)
def test_a_mistake_in_a_config_is_named(values, message):
    with pytest.raises(ValueError, match=message):
        from_dict(values)


def test_an_unknown_recipe_is_answered_with_the_nearest():
    with pytest.raises(FileNotFoundError, match="did you mean 'paper-mnist-rbf'"):
        load_config("paper-mnist-rbff")


def test_a_file_that_is_no_table_is_named(tmp_path):
    (tmp_path / "c.yaml").write_text("- a\n- b\n")
    with pytest.raises(ValueError, match=r"c\.yaml: expected lines like"):
        load_config(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text("a: [1\n")
    with pytest.raises(ValueError, match="not valid YAML"):
        load_config(tmp_path / "c.yaml")
