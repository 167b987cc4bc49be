"""What the plan as a whole hands on: the images, the clock, the time, and what is refused before anything is read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pictures import CPU, MEGABYTE, OWN
from PIL import Image

from kvicreg.data import ArrayData
from kvicreg.runs import Settings
from kvicreg.training import plan as module
from kvicreg.training.cost import Cost
from kvicreg.training.plan import plan


class Measured(list):
    """Stands for `measure`: notes what it is asked, and answers with a cost that depends on the size of the images."""

    def __call__(self, settings, data, views, clock=None, *, timed=True):
        self.append({"settings": settings, "data": data, "views": views, "clock": clock, "timed": timed})
        return Cost(CPU, 0, int(MEGABYTE * (data.shape[1] / 48) ** 2), 0.01, 0.0, 0.0)


@pytest.fixture
def measured(monkeypatch):
    measured = Measured()
    monkeypatch.setattr(module, "measure", measured)
    monkeypatch.setattr(module, "available_bytes", lambda device: 8000 * MEGABYTE)
    monkeypatch.setattr(module, "total_bytes", lambda device: 16000 * MEGABYTE)
    monkeypatch.setattr(module, "used_bytes", lambda device: 0)
    monkeypatch.setattr(module, "cores", lambda: 2)
    return measured


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """160 pictures of 50 x 60 pixels."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (160, 60, 50, 3), dtype=np.uint8)):
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return str(folder)


ARRAY = ArrayData(torch.zeros(2000, 1, 28, 28, dtype=torch.uint8), name="digits")


@pytest.mark.parametrize(
    ("given", "more", "sentence"),
    [
        ({"epochs": 3}, {"time": "5m"}, "time and epochs both say how long to train: give one of them"),
        ({}, {"time": "5m", "encoder": torch.nn.Identity()},
         "time: an encoder from Python is not timed before it trains; give epochs"),
        ({"devices": 2}, {"time": "5m"}, "time: each of several processes would come to epochs of its own; give "
         "--epochs, and --time-limit to stop when a time is over"),
        ({"nodes": 2}, {"time": "5m"}, "time: each of several processes would come to epochs of its own; give "
         "--epochs, and --time-limit to stop when a time is over"),
    ],
)  # fmt: skip
def test_a_time_that_can_not_be_kept_is_refused_before_anything_is_read(given, more, sentence):
    with pytest.raises(ValueError, match="time") as error:
        plan(Settings.of(data="nowhere", **given), **more)
    assert str(error.value) == sentence


def test_weights_to_start_from_that_are_not_there_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        plan(Settings.of(data="nowhere", init=str(tmp_path / "missing.safetensors")))


def test_the_plan_starts_with_the_encoder_of_the_run_it_starts_from(measured, make_run, tmp_path):
    run = make_run(tmp_path / "run")
    flat = plan(Settings.of(init=str(run), accelerator="cpu"), ARRAY).settings.flat()
    assert (flat["encoder"], flat["width"]) == ("small-cnn", 0.25)


def test_too_few_images_are_told_before_anything_is_measured(measured):
    with pytest.raises(ValueError, match="3 images are too few"):
        plan(Settings(), ArrayData(torch.zeros(3, 1, 28, 28, dtype=torch.uint8)))
    assert measured == []


def test_images_of_ones_own_are_chosen_for_and_measured_once(measured, folder):
    settings, data, views, cost, lines = plan(Settings.of(data=folder), clock=(clock := lambda: 0.0))
    (asked,) = measured
    assert (asked["data"], asked["views"], asked["clock"], asked["timed"]) == (data, views, clock, True)
    assert asked["settings"].flat()["encoder"] == "small-cnn"
    assert asked["settings"].data.channels == 3, "they are resolved"
    assert (data.shape, views.size) == ((3, 50, 50), 50)
    assert cost.image_seconds == 0.01
    # 15 minutes for 160 images of 0.01 seconds, 480 of a spectrum and 160 of a probe seen forward only, and saving
    assert settings.schedule.epochs == min(200, round(900 / (1.6 + 1.6 + 0.5)))
    assert lines[0].startswith("Chosen for 160 images of 50 pixels on 2 cores with 8.0 GB of free memory: small-cnn")
    assert len(lines) == 2


def test_images_from_python_are_named_by_their_size(measured):
    planned = plan(OWN.replace(accelerator="cpu"), ARRAY)
    assert planned.data is ARRAY
    assert planned.lines[0].startswith("Chosen for 2,000 images of 28 pixels on 2 cores")


@pytest.mark.parametrize(("time", "epochs"), [("1m", 6), ("10m", 60), (None, 90)])
def test_the_time_is_what_is_given_or_a_quarter_of_an_hour(measured, monkeypatch, time, epochs):
    monkeypatch.setattr(module, "epoch_seconds", lambda *given: 10)
    assert plan(OWN.replace(accelerator="cpu"), ARRAY, time=time).settings.schedule.epochs == epochs


def test_a_data_set_by_name_keeps_its_length_unless_a_time_is_given(measured, monkeypatch):
    monkeypatch.setattr(module, "epoch_seconds", lambda *given: 10)
    assert plan(Settings.of(accelerator="cpu")).settings.schedule.epochs is None
    assert plan(Settings.of(accelerator="cpu"), time="1m").settings.schedule.epochs == 6


def test_images_shrink_until_they_fit_and_are_read_again(measured, folder, monkeypatch):
    monkeypatch.setattr(module, "available_bytes", lambda device: 39 * MEGABYTE)
    settings, data, views, *_ = plan(Settings.of(data=folder, width=0.25, batch_size=40))
    assert [asked["data"].shape[1] for asked in measured] == [50, 40]
    assert (settings.data.image_size, data.shape[1], views.size) == (40, 40, 40)


def test_fewer_images_are_read_again(measured, folder, monkeypatch):
    monkeypatch.setattr(module, "epoch_seconds", lambda *given: 120)
    settings, data, views, *_ = plan(Settings.of(data=folder, batch_size=8), time="1m")
    assert (settings.data.images, settings.schedule.epochs, len(data)) == (80, 1, 80)
    assert views is not measured[0]["views"]


@pytest.mark.parametrize(
    ("given", "quiet", "timed"),
    [
        ({"epochs": 1}, False, True),
        ({"epochs": 1}, True, False),
        ({}, True, True),
        ({"epochs": 1, "approximation": "auto"}, True, True),
    ],
)
def test_steps_are_timed_where_somebody_reads_it_or_a_choice_depends_on_it(measured, monkeypatch, given, quiet, timed):
    monkeypatch.setattr(module, "choose_approximation", lambda settings, *given: (settings, "why"))
    plan(OWN.replace(accelerator="cpu", **given), ARRAY, quiet=quiet)
    assert [asked["timed"] for asked in measured] == [timed]


def test_the_approximation_is_chosen_for_the_batches_of_the_plan(measured, monkeypatch):
    asked = []

    def choose(settings, cost, batch_size, clock):
        asked.append((settings.schedule.epochs, cost, batch_size, clock))
        return settings.replace(approximation="exact"), "approximation auto: exact."

    monkeypatch.setattr(module, "choose_approximation", choose)
    clock = iter(range(9)).__next__
    planned = plan(OWN.replace(accelerator="cpu", approximation="auto", batch_size=80, epochs=2), ARRAY, clock=clock)
    assert asked == [(2, planned.cost, 80, clock)]
    assert planned.settings.flat()["approximation"] == "exact"
    assert planned.lines[-1] == "approximation auto: exact."


def test_an_encoder_from_python_is_not_measured(measured):
    planned = plan(OWN.replace(accelerator="cpu"), ARRAY, encoder=torch.nn.Identity())
    assert measured == []
    assert not planned.cost.is_known
    assert planned.settings.schedule.epochs is None
    assert all(line.startswith("Chosen for") for line in planned.lines)
