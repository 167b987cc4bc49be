"""Settings: every one is read by something, one that nothing reads is refused by name, and every mistake is named."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path

import pytest
import torch
import yaml
from PIL import Image

import kvicreg
from kvicreg.methods import METHODS
from kvicreg.models import Projector
from kvicreg.options import Options, readers
from kvicreg.runs import Settings, load_settings
from kvicreg.runs.config import dump_settings, recipes
from kvicreg.training import train
from kvicreg.training.faults import strategy_of
from kvicreg.training.plan import plan

EVERY_SETTING = readers(Settings)
CHOICES = {
    setting.name: [name.replace("NAME", "x") for name in setting.choices]
    for setting in Settings().settings()
    if setting.choices
}
MEMBERS = [(kind, name) for kind, names in CHOICES.items() for name in names]


# ---- a setting that nothing reads


@pytest.mark.parametrize(("kind", "member"), MEMBERS, ids=lambda value: value)
def test_a_setting_that_a_choice_does_not_read_is_refused_by_name(kind, member):
    read = set(Settings.of(**{kind: member}).flat())
    for name in set(EVERY_SETTING) - read:
        with pytest.raises(ValueError, match=rf"nothing reads {name} with .*it is read by") as refusal:
            Settings.of(**{kind: member, name: 1})
        assert any(by in str(refusal.value) for by in EVERY_SETTING[name])


@pytest.mark.parametrize("method", CHOICES["method"])
def test_no_method_reads_the_settings_that_are_only_anothers(method):
    """So that the test above is not empty: a method's own settings are not everybody's."""
    mine = set(METHODS.find(method).of().flat())
    others = {name for other in CHOICES["method"] if other != method for name in METHODS.find(other).of().flat()}
    refused = others - mine
    assert refused
    for name in refused:
        with pytest.raises(ValueError, match=f"nothing reads {name}"):
            Settings.of(method=method, **{name: 1})


@pytest.mark.parametrize(
    "given",
    [
        {"method": "simclr", "kernel": "laplacian"},
        {"method": "simclr", "variance_weight": 3},
        {"method": "simclr", "threshold": 2},
        {"method": "simclr", "approximation": "nystrom"},
        {"group_weight": 0.3},
        {"components": 64},
        {"stem": "small"},
        {"encoder": "resnet18", "pool": 1},
        {"momentum": 0.5},
        {"redundancy_weight": 0},
        {"kernel": "linear", "bandwidth_multiple": 2},
        {"method": "swav", "local_crop_area": 0.3},
    ],
    ids=str,
)
def test_what_used_to_be_ignored_is_refused(given):
    with pytest.raises(ValueError, match=r"nothing reads|is read only with"):
        Settings.of(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"views": "digts"}, "did you mean 'digits'"),
        ({"split": "trian"}, "did you mean 'train'"),
        ({"method": "simlcr"}, "did you mean 'simclr'"),
        ({"kernel": "rfb"}, "did you mean 'rbf'"),
        ({"encoder": "resnet81"}, "did you mean 'resnet18'"),
        ({"optimizer": "adamm"}, "did you mean 'adam"),
        ({"approximation": "nistrom"}, "did you mean 'nystrom'"),
        ({"precision": "bf16-mixd"}, "did you mean 'bf16-mixed'"),
        ({"kernal": "rbf"}, "no setting 'kernal'; did you mean 'kernel'"),
        ({"epochs": "many"}, "epochs: expected int, got 'many'"),
        ({"epochs": True}, "epochs: expected int"),
        ({"epochs": 0}, "epochs must be positive, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number"),
        ({"workers": -1}, "workers must be at least 0"),
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"seed": 2**31}, "seed must be at least 0 and at most"),
        ({"crop_area": 0}, "crop_area must be above 0 and at most 1"),
        ({"method": "byol", "target_momentum": 1.5}, "target_momentum must be at least 0 and at most 1"),
    ],
    ids=str,
)
def test_a_mistake_is_named(given, message):
    with pytest.raises(ValueError, match=re.escape(message).replace(r"\ ", " ")):
        Settings.of(**given)


def test_changing_the_method_drops_what_only_the_former_one_read_and_keeps_the_rest():
    settings = Settings.of(kernel="rq", threshold=2.0, epochs=3)
    changed = settings.replace(method="simclr")
    assert changed.flat()["method"] == "simclr"
    assert changed.schedule.epochs == 3
    assert "kernel" not in changed.flat()
    assert changed.replace(method="kernel-vicreg").flat()["kernel"] == "rbf"


# ---- a setting that the code does not look at


@pytest.fixture(scope="module")
def read_settings(tmp_path_factory) -> set[str]:
    """The settings that the package looks at while runs of every choice are built, planned and trained."""
    read: set[str] = set()
    package = str(Path(kvicreg.__file__).parent)

    def spy(self, name):
        code = sys._getframe(1).f_code
        if code.co_filename.startswith(package) and not code.co_filename.endswith(
            ("kvicreg/options.py", "runs/config.py")
        ):
            value = object.__getattribute__(self, name)
            if name == "flat":  # handed on whole, to a constructor that refuses what it does not know
                read.update(value())
            read.add(name)
            return value
        return object.__getattribute__(self, name)

    small = Settings.of(
        width=0.25, batch_size=32, projector_hidden=16, projector_outputs=16, max_steps=2, probe_images=20,
        spectrum_images=16, out=str(tmp_path_factory.mktemp("runs") / "run"),
    )  # fmt: skip
    flags = {name: field for cls in _options(Settings) for field, name in _flags(cls)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Options, "__getattribute__", spy)
        plan(small.replace(local_crops=1))
        train(small, quiet=True)
        for kind, member in MEMBERS:
            settings = small.replace(**{kind: member})
            if kind == "method":
                encoder = torch.nn.Flatten()
                encoder.feature_dim = 4
                settings.method.resolved(3).build(encoder, Projector(4, 4, 4))
            elif kind == "encoder" and ":" not in member:
                settings.model.encoder.build(1, 32)
            elif kind == "optimizer":
                settings.optimizer.build(torch.nn.Linear(2, 2))
            elif kind == "kernel":
                settings.method.kernel.build()
            elif kind == "approximation":
                settings.method.approximation.build(0)
        for source in _images_of_ones_own(tmp_path_factory.mktemp("images")):
            small.replace(data=str(source)).data.whole()
        small.replace(kernel="rbf+rq", learn_mixture=True).method.kernel.build()
        narrow = "hidden_size=12,num_hidden_layers=1,num_attention_heads=2,intermediate_size=8"
        small.replace(encoder="hf:vit", model_args=narrow).model.encoder.build(1, 32)
        strategy_of(small.replace(devices=2))
    return {name for name, field in flags.items() if field in read} | read


def _images_of_ones_own(folder: Path) -> tuple[Path, Path]:
    """A folder of images, and a table that names them."""
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    (folder / "table.csv").write_text("image,label\na.png,x\n")
    return folder, folder / "table.csv"


def _options(cls: type[Options]) -> list[type[Options]]:
    classes = [cls]
    for f in dataclasses.fields(cls):
        if "family" in f.metadata:
            classes += [inner for member in f.metadata["family"].load().values() for inner in _options(member)]
        elif isinstance(f.default_factory, type) and issubclass(f.default_factory, Options):
            classes += _options(f.default_factory)
    return classes


def _flags(cls: type[Options]) -> list[tuple[str, str]]:
    return [(f.name, f.metadata.get("flag") or f.name) for f in dataclasses.fields(cls)]


@pytest.mark.parametrize("name", EVERY_SETTING)
def test_every_setting_is_read_by_the_code(name, read_settings):
    assert name in read_settings


@pytest.mark.parametrize("name", EVERY_SETTING)
def test_every_setting_has_help(name):
    helps = [f.metadata["help"] for cls in _options(Settings) for f in _fields(cls, name)]
    assert helps
    assert all(
        (text.endswith((".", "...")) and text[0].isupper()) or text.startswith(("cpu", "torch")) for text in helps
    )


def _fields(cls, name):
    return [f for f in dataclasses.fields(cls) if (f.metadata.get("flag") or f.name) == name and "help" in f.metadata]


# ---- recipes and files


@pytest.mark.parametrize("name", recipes())
def test_recipes_load(name):
    settings = load_settings(name)
    assert settings.data.source in name or name == "demo"


def test_paper_recipes_hold_the_papers_two_settings_and_weights():
    second, first = load_settings("paper-cifar10-rq").flat(), load_settings("paper-cifar10-rq-256").flat()
    assert (second["learning_rate"], second["batch_size"], second["projector_layers"]) == (1e-3, 512, 3)
    assert (first["learning_rate"], first["batch_size"], first["projector_layers"]) == (3e-4, 256, 2)
    for flat in (first, second):
        assert (flat["invariance_weight"], flat["variance_weight"], flat["covariance_weight"]) == (1.9, 1, 8)
        assert (flat["parametrization"], flat["encoder"], flat["projector_hidden"]) == ("paper", "resnet18", 1024)


@pytest.mark.parametrize("method", CHOICES["method"])
def test_settings_survive_yaml(tmp_path, method):
    settings = Settings.of(method=method, learning_rate=3e-4, blur=0.5, views="small", out="somewhere", data="a b")
    (tmp_path / "c.yaml").write_text(dump_settings(settings))
    assert load_settings(tmp_path / "c.yaml") == settings


def test_a_config_with_a_setting_that_is_no_longer_there_loads_where_it_is_null(tmp_path):
    (tmp_path / "config.yaml").write_text("epochs: 7\nwandb: null\n")
    assert load_settings(tmp_path / "config.yaml") == Settings.of(epochs=7)
    (tmp_path / "config.yaml").write_text("wandb: project\n")
    with pytest.raises(ValueError, match="there is no setting 'wandb'"):
        load_settings(tmp_path / "config.yaml")


def test_numbers_are_read_as_people_write_them():
    settings = Settings.of(**yaml.safe_load("learning_rate: 3e-4\nwidth: 2"))
    assert settings.optimizer.learning_rate == 3e-4
    assert settings.model.encoder.width == 2.0


def test_an_unknown_recipe_is_answered_with_the_nearest():
    with pytest.raises(FileNotFoundError, match="did you mean 'paper-mnist-rbf'"):
        load_settings("paper-mnist-rbff")


def test_a_file_that_is_no_table_is_named(tmp_path):
    (tmp_path / "c.yaml").write_text("- a\n- b\n")
    with pytest.raises(ValueError, match=r"c\.yaml: expected lines like"):
        load_settings(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text("a: [1\n")
    with pytest.raises(ValueError, match="not valid YAML"):
        load_settings(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text("epocs: 3\n")
    with pytest.raises(ValueError, match=r"c\.yaml: there is no setting 'epocs'; did you mean 'epochs'"):
        load_settings(tmp_path / "c.yaml")
