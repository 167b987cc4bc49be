"""The template of a plugin: installed beside kvicreg, its kernel, method and source are there by name."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kvicreg import kernels, options
from kvicreg.kernels import RBF

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"
TRAIN = """
from kvicreg.cli import main
small = "--epochs 1 --batch-size 64 --width 0.25 --projector-hidden 16 --projector-outputs 16 --probe-images 0".split()
main(["train", "--data", "stripes:128", "--kernel", "0.5*double_exponential+0.5*linear", *small, "--out", "kernel"])
main(["train", "--data", "stripes:128", "--method", "rate", "--distortion", "0.3", *small, "--out", "method"])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the plugin, as pip installs it."""
    target = tmp_path_factory.mktemp("plugin")
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, str(PLUGIN)], check=True, timeout=300, cwd=target)
    return target


def run(installed, *arguments, **more):
    paths = os.pathsep.join([str(installed), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300, **more
    )


def test_the_command_line_knows_what_the_plugin_adds(installed, tmp_path):
    done = run(installed, "-c", TRAIN, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kernel: 0.5*double_exponential+0.5*linear" in (tmp_path / "kernel" / "config.yaml").read_text()
    assert "distortion: 0.3" in (tmp_path / "method" / "config.yaml").read_text()
    assert all((tmp_path / name / "encoder.safetensors").is_file() for name in ("kernel", "method"))


def test_the_plugins_own_tests_pass(installed, tmp_path):
    done = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PLUGIN / "tests"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("...")


def test_a_plugin_that_fails_is_named(monkeypatch):
    broken = EntryPoint("toy", "no_such_module.toy", "kvicreg.kernels")
    monkeypatch.setattr(options, "entry_points", lambda group: [broken])
    with pytest.raises(ImportError, match=r"the plugin no_such_module\.toy can't be loaded: ModuleNotFoundError"):
        options.load_plugins("kvicreg.kernels")


def test_a_kernel_is_registered_by_name(monkeypatch):
    class Gauss(RBF):
        pass

    monkeypatch.setattr(kernels.KERNELS, "members", dict(kernels.KERNELS.load()))
    assert kernels.register("gauss", Gauss) is Gauss
    assert isinstance(kernels.get("gauss"), Gauss)
    assert kernels.make("0.5*gauss+0.5*linear", gamma=0.5).weights == [0.5, 0.5]
    with pytest.raises(ValueError, match="two classes for the kernel 'linear'"):
        kernels.register("linear", Gauss)
    with pytest.raises(TypeError, match=r"kernel must be a subclass of kernels\.Kernel, got 3"):
        kernels.register("three", 3)
