"""What is left open is chosen from the images and the machine, what is fixed is kept, and what can't fit is a sentence.

Steps are not timed here: a made-up cost stands for them, except where the measurement itself is tested.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.data import ArrayData
from kvicreg.runs import Settings
from kvicreg.runs.durations import minutes
from kvicreg.selection.options import SelectOptions
from kvicreg.selection.study import start_study
from kvicreg.training import plan as module
from kvicreg.training.build import build_views, resolve
from kvicreg.training.cost import Cost, measure
from kvicreg.training.plan import chosen, plan

CPU, GPU = torch.device("cpu"), torch.device("cuda")
MEGABYTE = 10**6


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """120 pictures of 240 x 300 pixels."""
    folder = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(0)
    for number in range(120):
        coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
        coarse.resize((240, 300)).save(folder / f"{number}.jpg")
    return str(folder)


@pytest.fixture
def machine(monkeypatch):
    """Sets the bytes that are free (and half of all), and what a step costs: bytes of an image at 96 pixels."""

    def set_up(free=20_000 * MEGABYTE, image_bytes=4 * MEGABYTE, image_seconds=0.01):
        def cost(settings, data, views, clock=None, *, timed=True):
            scale = (data.shape[1] / 96) ** 2
            return Cost(CPU, 100 * MEGABYTE, int(scale * image_bytes), image_seconds, 0.001, 0.02)

        monkeypatch.setattr(module, "measure", cost)
        monkeypatch.setattr(module, "available_bytes", lambda device: free)
        monkeypatch.setattr(module, "total_bytes", lambda device: 2 * free)
        monkeypatch.setattr(module, "used_bytes", lambda device: 600 * MEGABYTE)
        monkeypatch.setattr(module, "cores", lambda: 2)

    set_up()
    return set_up


def test_photographs_alone_are_enough(photographs, machine):
    planned = plan(Settings.of(data=photographs))
    flat = planned.settings.flat()
    assert (flat["encoder"], flat["image_size"]) == ("small-cnn", module.IMAGE_SIZE["cpu"])
    assert planned.data.shape == (3, flat["image_size"], flat["image_size"])
    assert (flat["batch_size"], flat["workers"], flat["precision"]) == (24, 2, "auto")
    assert flat["epochs"] == module.MOST_EPOCHS
    first, second = planned.lines
    assert "120 images of 240 pixels on 2 cores with 20.0 GB" in first
    assert "small-cnn (width 1.0), 64 pixels, " in first
    assert "batches of 24" in first
    assert re.search(r"takes about .* and 0\.8 GB of memory", second)
    assert all(name in second for name in ("--time", "--epochs", "--encoder", "--image-size", "--batch-size"))


FIXED = {
    "encoder": "small-cnn", "image_size": 32, "batch_size": 16, "epochs": 20, "precision": "32-true", "workers": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", FIXED)
def test_what_is_fixed_is_kept_even_at_the_usual_value(name, photographs, machine):
    flat = plan(Settings.of(data=photographs, **{name: FIXED[name]})).settings.flat()
    assert flat[name] == FIXED[name]


def test_with_everything_fixed_nothing_is_chosen(photographs, machine):
    planned = plan(Settings.of(data=photographs, **FIXED))
    assert planned.settings.flat() == Settings.of(data=photographs, **FIXED).flat()
    (line,) = planned.lines
    assert line.startswith("Training takes about")


def test_settings_of_the_small_cnn_make_it_one(photographs, machine):
    settings = plan(Settings.of(data=photographs, width=0.25)).settings
    assert settings.usual().flat()["encoder"] == "small-cnn"
    assert settings.flat()["width"] == 0.25


def test_data_sets_known_by_name_keep_their_settings(machine):
    planned = plan(Settings())
    flat = resolve(*planned[:3]).flat()
    assert (flat["encoder"], flat["image_size"], flat["batch_size"]) == ("small-cnn", 28, 512)
    assert (flat["epochs"], flat["precision"], flat["workers"]) == (20, "32-true", 2)
    assert planned.settings == Settings()


def test_small_images_from_python_get_the_small_cnn(machine):
    data = ArrayData(torch.zeros(100, 1, 28, 28, dtype=torch.uint8), name="digits")
    settings = plan(Settings(), data).settings
    assert settings.usual().flat()["encoder"] == "small-cnn"
    assert settings.data.image_size == 28
    large = ArrayData(torch.zeros(20, 3, 120, 120, dtype=torch.uint8), name="large")
    settings = plan(Settings(), large).settings
    assert (settings.flat()["encoder"], settings.data.image_size) == ("resnet18", 120), "which nobody may shrink"


def test_sixteen_photographs_of_three_thousand_pixels_are_enough(tmp_path, machine):
    for number in range(16):
        Image.new("RGB", (3000, 2000), (number, 100, 200)).save(tmp_path / f"{number}.jpg")
    planned = plan(Settings.of(data=str(tmp_path)))
    assert planned.settings.schedule.batch_size == 8
    assert "16 images of 2000 pixels" in planned.lines[0]
    side = planned.data.for_views().shape[1]
    assert side <= 2 * module.IMAGE_SIZE["cpu"]
    assert planned.data.for_views().fetch(torch.arange(2)).shape == (2, 3, side, side)


def test_a_module_from_python_is_not_run_before_it_trains(machine):
    class Fails(torch.nn.Module):
        feature_dim = 4

        def forward(self, x):
            raise AssertionError("it was run")

    data = ArrayData(torch.zeros(100, 1, 28, 28, dtype=torch.uint8), name="digits")
    planned = plan(Settings(), data, encoder=Fails())
    assert planned.settings.schedule.total_epochs == 20
    assert not planned.cost.is_known
    with pytest.raises(ValueError, match="time: an encoder from Python is not timed"):
        plan(Settings(), data, encoder=Fails(), time="5m")


def test_a_training_that_diverges_is_planned_all_the_same(tiny_config, tiny_data):
    assert plan(tiny_config.replace(learning_rate=1e25), tiny_data).cost.is_known


def test_larger_images_get_a_larger_encoder(photographs, machine):
    planned = plan(Settings.of(data=photographs, image_size=128))
    flat = planned.settings.flat()
    assert (flat["encoder"], flat["width"], flat["stem"]) == ("resnet18", 0.5, "imagenet")
    assert "resnet18 (width 0.5, stem imagenet), " in planned.lines[0]


def test_a_gpu_gets_more(photographs):
    flat = chosen(Settings.of(data=photographs), Settings.of(data=photographs).data.load(), GPU).flat()
    assert (flat["encoder"], flat["width"], flat["stem"], flat["image_size"]) == ("resnet18", 1.0, "imagenet", 224)


def test_a_small_stem_is_not_taken_where_it_costs_a_fortune(photographs, machine):
    flat = plan(Settings.of(data=photographs, encoder="resnet18", image_size=64)).settings.flat()
    assert flat["stem"] == "imagenet"
    flat = plan(Settings.of(data=photographs, encoder="resnet18", image_size=64, stem="small")).settings.flat()
    assert flat["stem"] == "small"
    assert Settings.of(data="tiny-imagenet", encoder="resnet18").model.encoder.resolved(64).stem == "small"


# ---- time


def test_the_length_follows_the_time(photographs, machine):
    machine(image_seconds=0.1)
    settings = Settings.of(data=photographs, probe_images=0)
    long, short = (plan(settings, time=time) for time in ("30m", "10m"))
    assert long.settings.schedule.epochs == pytest.approx(3 * short.settings.schedule.epochs, abs=2)
    for planned, time in ((long, "30m"), (short, "10m")):
        assert module.run_seconds(*planned[:2], planned.cost) == pytest.approx(60 * minutes(time), rel=0.1)
        assert f"about {time[:-1]} minutes" in planned.lines[-1]


def test_a_named_data_set_is_fitted_to_a_time_too(machine):
    assert plan(Settings(), time="5m").settings.schedule.epochs != 20


def test_time_and_epochs_together_are_refused(photographs):
    with pytest.raises(ValueError, match="time and epochs both say how long"):
        plan(Settings.of(data=photographs, epochs=3), time="5m")


def test_where_not_even_one_pass_fits_it_is_over_fewer_images(photographs, machine):
    machine(image_seconds=1.0)
    settings = plan(Settings.of(data=photographs, batch_size=8, probe_images=0, spectrum_images=2), time="1m").settings
    assert settings.schedule.epochs == 1
    assert 32 <= settings.data.images < 60
    assert len(settings.data.load()) == settings.data.images


def test_the_time_to_decode_files_is_part_of_it(photographs, machine, monkeypatch):
    machine(image_seconds=0.1)
    fast, measured = plan(Settings.of(data=photographs), time="10m"), module.measure
    monkeypatch.setattr(module, "measure", lambda *given, **more: measured(*given, **more)._replace(read_seconds=4.0))
    slow = plan(Settings.of(data=photographs), time="10m")
    assert slow.settings.schedule.epochs < fast.settings.schedule.epochs
    assert module.run_seconds(*slow[:2], slow.cost) == pytest.approx(600, rel=0.1)
    assert "Chosen for 120 images of 240 pixels" in slow.lines[0]


# ---- memory


def test_batches_become_smaller_where_memory_is_short(machine):
    machine(free=MEGABYTE * 1000, image_bytes=16 * MEGABYTE)
    many = ArrayData(torch.zeros(2000, 3, 96, 96, dtype=torch.uint8), name="many")
    planned = plan(Settings(), many)
    size = planned.settings.schedule.batch_size
    assert module.SMALLEST_BATCH <= size < module.BATCH_SIZE["cpu"]
    assert planned.cost.bytes(size) <= 1000 * MEGABYTE < planned.cost.bytes(size + 8)


def test_images_become_smaller_before_batches_become_useless(photographs, machine):
    machine(free=MEGABYTE * 200, image_bytes=8 * MEGABYTE)
    planned = plan(Settings.of(data=photographs))
    size = planned.settings.data.image_size
    assert module.SMALLEST_IMAGE <= size < module.IMAGE_SIZE["cpu"]
    assert planned.data.shape[1] == size
    assert planned.cost.bytes(planned.settings.schedule.batch_size) <= 200 * MEGABYTE


def test_what_is_fixed_and_can_not_fit_is_a_sentence_with_what_does(photographs, machine):
    machine(free=MEGABYTE * 1000)
    settings = Settings.of(data=photographs, image_size=240, batch_size=100)
    with pytest.raises(ValueError, match=r"100 images of 240 pixels need about 3\.\d GB .* 1\.0 GB are there") as error:
        plan(settings)
    batch, side = re.search(r"--batch-size (\d+) or --image-size (\d+) would fit", str(error.value)).groups()
    plan(settings.replace(batch_size=int(batch)))
    plan(settings.replace(image_size=int(side)))
    with pytest.raises(ValueError, match="would fit"):
        plan(settings.replace(batch_size=int(batch) + 16))


def test_candidates_of_a_selection_share_the_plan(photographs, machine, tmp_path):
    machine(free=MEGABYTE * 1000)
    lines = []
    options = SelectOptions(budget="30steps", candidates=("rbf", "linear"))
    study = start_study(tmp_path / "study", Settings.of(data=photographs), options, say=lines.append)
    assert all(study.settings_of(name).flat()["encoder"] == "small-cnn" for name in study.names)
    assert "Chosen for 120 images" in lines[0]
    with pytest.raises(ValueError, match="would fit"):
        start_study(tmp_path / "large", Settings.of(data=photographs, image_size=240, batch_size=100), options)
    assert not (tmp_path / "large").exists()


def test_the_predicted_memory_is_about_what_a_large_batch_takes():
    # in a process of its own, as the command has it: in an old one what was freed before blurs both numbers
    worker = Path(__file__).with_name("memory_worker.py")
    done = subprocess.run([sys.executable, worker], capture_output=True, text=True, check=True, timeout=120)
    cost, peak = json.loads(done.stdout)
    if peak is None:
        pytest.skip("this system does not tell the peak of a process's memory")
    cost = Cost(CPU, *cost)
    assert 0.8 * peak < cost.bytes(512) < 2 * peak
    assert cost.largest_batch(cost.bytes(512)) == pytest.approx(512, abs=1)
    assert math.isfinite(cost.seconds(512))


def test_without_affinity_all_cores_count_and_one_where_nobody_knows(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for count, cores in ((6, 6), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert module.cores() == cores


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (2 * 2**30, 2 * 2**30))
from kvicreg.cli import main
plain = ["train", "--dry-run", "--data", sys.argv[1]]
codes = [main(plain), main([*plain, "--image-size", "224", "--batch-size", "120", "--width", "8"])]
sys.exit(0 if codes == [0, 1] else 1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts all private memory under RLIMIT_DATA")
def test_with_two_gibibytes_it_ends_in_a_plan_that_fits_or_in_a_sentence(photographs):
    command = [sys.executable, "-c", LIMITED, photographs]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert "Chosen for 120 images of 240 pixels" in result.stdout
    assert "would fit" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_method_that_needs_many_images_is_measured_with_as_many():
    settings = Settings.of(method="w-mse", width=0.25, projector_hidden=16, projector_outputs=80)
    data = ArrayData(torch.randint(0, 256, (256, 1, 16, 16), dtype=torch.uint8), name="noise")
    views = build_views(settings, data)
    assert measure(resolve(settings, data, views), data, views).image_seconds > 0


@pytest.mark.parametrize(
    ("settings", "quiet", "timed"),
    [
        ({"epochs": 1}, False, True),
        ({"epochs": 1}, True, False),
        ({}, True, True),  # the length depends on it
        ({"epochs": 1, "approximation": "auto"}, True, True),
    ],
)
def test_a_quiet_training_is_timed_only_where_a_choice_depends_on_it(settings, quiet, timed):
    small = {"width": 0.25, "projector_hidden": 16, "projector_outputs": 16, "batch_size": 32, "images": 64}
    planned = plan(Settings.of(data="mnist-small", **small, **settings), quiet=quiet)
    assert planned.cost.is_known == timed
    assert planned.cost.image_bytes is not None
    assert any("Training takes about" in line for line in planned.lines) == timed
