"""The examples run as they are, and do what they say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from tests.torchvision_stub import import_or_skip

FOLDER = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested_here_and_fits_on_a_page():
    names = {path.stem for path in FOLDER.glob("*.py")}
    assert names == {"plain_pytorch", "lightning_module", "with_lightly", "time_series"}
    assert all(len(path.read_text().splitlines()) <= 90 for path in FOLDER.glob("*.py"))


def test_plain_pytorch_loop_lowers_the_loss(capsys):
    module = example("plain_pytorch")
    assert module.main(steps=60) < module.main(steps=1)


def test_lightning_module_trains(capsys):
    assert example("lightning_module").main(steps=4) >= 0


def test_time_series_are_told_apart_better_after_pretraining(capsys):
    before, after = example("time_series").main()
    assert after > before + 0.05


def test_with_lightly_trains_where_it_is_installed(capsys):
    import_or_skip("lightly.transforms.vicreg_transform")
    assert example("with_lightly").main() > 0
