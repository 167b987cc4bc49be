"""How long the plan says a training takes, what it does with a time, and its sentences, on made-up machines."""

from __future__ import annotations

import pytest
from pictures import CPU, GPU, MEGABYTE, OWN, Pictures

from kvicreg.runs import Settings
from kvicreg.training import plan as module
from kvicreg.training.cost import Cost, unknown_cost
from kvicreg.training.plan import describe, epoch_seconds, fit_time, reading_seconds, run_seconds, small_steps

COST = Cost(CPU, 100 * MEGABYTE, MEGABYTE, image_seconds=0.01, read_seconds=0.02, loss_seconds=0.64)


@pytest.fixture
def told(monkeypatch):
    """A machine with 3 cores and 8 GB free, 9 GB on its GPU; the process has 0.5 and 0.7 GB."""
    monkeypatch.setattr(module, "available_bytes", {CPU: 8000 * MEGABYTE, GPU: 9000 * MEGABYTE}.__getitem__)
    monkeypatch.setattr(module, "used_bytes", {CPU: 500 * MEGABYTE, GPU: 700 * MEGABYTE}.__getitem__)
    monkeypatch.setattr(module, "cores", lambda: 3)


# ---- seconds


@pytest.mark.parametrize(
    ("count", "given", "seconds"),
    [
        # batches, images of the spectrum three times and those of the probe, and what is saved
        (1000, {}, 7 * (1.28 + 0.16) + (3 * 256 + 1000) * 0.0025 + 0.5),
        (1000, {"probe_images": 400, "probe_every": 2}, 7 * 1.44 + (3 * 256 + 200) * 0.0025 + 0.5),
        (200, {"probe_images": 100}, 1.44 + (3 * 200 + 100) * 0.0025 + 0.5),
    ],
)
def test_an_epoch_takes_its_steps_and_what_is_measured_and_saved_at_its_end(count, given, seconds):
    settings = Settings.of(data="photographs", batch_size=128, **given)
    assert epoch_seconds(settings, Pictures(count), COST) == pytest.approx(seconds)


@pytest.mark.parametrize(("workers", "seconds"), [(None, 20), (0, 20), (1, 20), (4, 5)])
def test_workers_decode_side_by_side(workers, seconds):
    assert reading_seconds(OWN.replace(workers=workers), Pictures(1000), COST) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("given", "batches"),
    [
        ({"epochs": 3}, 21),
        ({}, 140),
        ({"epochs": 3, "max_steps": 10}, 10),
        ({"epochs": 3, "max_steps": 5, "accumulate": 2}, 10),
        ({"epochs": 3, "max_steps": 1000}, 21),
    ],
)
def test_a_run_takes_its_batches_and_decodes_once(monkeypatch, given, batches):
    monkeypatch.setattr(module, "epoch_seconds", lambda *given: 70)
    settings = Settings.of(data="photographs", batch_size=128, workers=2, **given)
    assert run_seconds(settings, Pictures(1000), COST) == pytest.approx(10 * batches + 10)


@pytest.mark.parametrize(
    ("seconds", "given", "epochs", "images"),
    [
        (120, {}, 10, None),
        (124, {}, 10, None),
        (126, {}, 11, None),
        (10**6, {}, 200, None),
        (27.5, {}, 1, None),
        (27, {}, 1, 900),
        (27, {"batch_size": 225}, 1, 900),
        (27, {"batch_size": 226}, 1, None),
        (27, {"images": 1000}, 1, 1000),
        (1, {}, 1, None),
        (120, {"devices": 2}, None, None),
        (120, {"nodes": 2}, None, None),
    ],
)
def test_a_time_becomes_epochs_or_fewer_images(monkeypatch, seconds, given, epochs, images):
    monkeypatch.setattr(module, "epoch_seconds", lambda *given: 10)
    monkeypatch.setattr(module, "reading_seconds", lambda *given: 20)
    settings = Settings.of(data="photographs", **({"batch_size": 64} | given))
    fitted = fit_time(settings, Pictures(1000, settings=settings), COST, seconds)
    assert (fitted.schedule.epochs, fitted.data.images) == (epochs, images)
    assert fit_time(settings, Pictures(1000, settings=None), COST, seconds).data.images == settings.data.images


# ---- sentences


def test_what_is_chosen_and_what_it_takes_are_two_sentences(told):
    made = OWN.replace(encoder="resnet18", image_size=64, batch_size=128, workers=2, images=900, epochs=4, stem="small")
    first, second = describe(made, Pictures(1000, cache_bytes=2000 * MEGABYTE), COST, OWN, "1,000 images of 80 pixels")
    assert first == (
        "Chosen for 1,000 images of 80 pixels on 3 cores with 8.0 GB of free memory: resnet18 (width 1.0, stem small), "
        "64 pixels, batches of 128, 2 workers, 900 of the images, 4 epochs."
    )
    # 0.5 GB in use, 0.28 GB of steps, 2 GB of decoded images; 128 images in 1.44 seconds
    assert second == (
        "Training takes about 70 seconds and 2.8 GB of memory (89 images/s on cpu); --time 30m or --epochs changes how "
        "long, --encoder, --image-size, --batch-size, --workers, --images the rest."
    )


def test_on_a_gpu_cores_do_not_matter(told):
    fixed = OWN.replace(batch_size=1000, encoder="small-cnn", epochs=4, image_size=64, workers=2)
    cost = COST._replace(device=GPU, image_seconds=0.0004, read_seconds=0.0, loss_seconds=0.0)
    first, second = describe(fixed, Pictures(5000), cost, fixed.replace(batch_size=None), "images")
    assert first == "Chosen for images on the GPU with 9.0 GB of free memory: batches of 1000."
    # 0.7 GB in use and 1.2 * (0.1 + 1 + 0.128) GB of steps
    assert second == "Training takes about 11 seconds and 2.2 GB of memory (2,500 images/s on cuda)."


def test_what_nobody_knows_is_not_told(told, monkeypatch):
    monkeypatch.setattr(module, "available_bytes", lambda device: None)
    fixed = OWN.replace(encoder="small-cnn", epochs=4, workers=2, image_size=64)
    made = fixed.replace(batch_size=128)
    assert describe(made, Pictures(), unknown_cost(made), fixed, "images") == [
        "Chosen for images on 3 cores: batches of 128."
    ]
    assert describe(made, Pictures(), unknown_cost(made), made, "images") == []
    (line,) = describe(made, Pictures(), COST._replace(image_bytes=None), made, "images")
    assert line == "Training takes about 70 seconds (89 images/s on cpu)."


def test_what_stays_open_is_not_chosen(told):
    first, _ = describe(OWN.replace(batch_size=128), Pictures(), COST, OWN, "images")
    assert first.endswith("free memory: batches of 128.")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("out of memory")])
@pytest.mark.parametrize(("free", "words"), [(1234 * MEGABYTE, "1.2 GB"), (None, "0.0 GB")])
def test_where_not_even_small_steps_fit_it_is_told(monkeypatch, error, free, words):
    def fail(*given, **more):
        raise error

    monkeypatch.setattr(module, "measure", fail)
    monkeypatch.setattr(module, "available_bytes", {CPU: free}.__getitem__)
    with pytest.raises(ValueError, match="not even") as told:
        small_steps(Settings.of(accelerator="cpu"), Pictures(side=300), None, None)
    assert str(told.value) == (
        f"not even a few images of 300 pixels fit into the {words} of free memory; a smaller --image-size or --encoder "
        "would fit"
    )


def test_a_mistake_in_small_steps_stays_what_it_is(monkeypatch):
    def fail(*given, **more):
        raise RuntimeError("wrong shape")

    monkeypatch.setattr(module, "measure", fail)
    with pytest.raises(RuntimeError, match="wrong shape"):
        small_steps(Settings.of(accelerator="cpu"), Pictures(), None, None)
