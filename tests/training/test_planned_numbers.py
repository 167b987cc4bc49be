"""The plan's choices, numbers and sentences on made-up machines, to the last digit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pictures import CPU, GPU, MEGABYTE, OWN, Pictures

from kvicreg.runs import Settings
from kvicreg.training import plan as module
from kvicreg.training.plan import chosen, fit_memory


@pytest.fixture
def memory(monkeypatch):
    """Sets the free megabytes and all of them, on a device."""

    def set_up(free, total=10**6, device=CPU):
        for name, answer in (("available_bytes", free), ("total_bytes", total)):
            told = {device: answer if answer is None else answer * MEGABYTE}
            monkeypatch.setattr(module, name, told.__getitem__)

    return set_up


def per_image(device=CPU, **more):
    """Steps that take a megabyte for each image."""
    plain = {"largest_batch": lambda room: room // MEGABYTE, "bytes": lambda batch: batch * MEGABYTE}
    return SimpleNamespace(**({"device": device, "image_bytes": MEGABYTE} | plain | more))


# ---- what is chosen


@pytest.mark.parametrize(
    ("device", "side", "given", "expected"),
    [
        (CPU, 40, {}, {"encoder": "small-cnn", "image_size": 40, "batch_size": 64}),
        (CPU, 500, {}, {"encoder": "small-cnn", "image_size": 64}),
        (CPU, 500, {"image_size": 96}, {"encoder": "small-cnn", "image_size": 96}),
        (CPU, 500, {"image_size": 97}, {"encoder": "resnet18", "width": 0.5, "stem": "imagenet", "image_size": 97}),
        (GPU, 40, {}, {"encoder": "small-cnn", "image_size": 40, "batch_size": 512}),
        (GPU, 41, {}, {"encoder": "resnet18", "width": 1.0, "stem": "imagenet", "image_size": 41}),
        (GPU, 500, {}, {"encoder": "resnet18", "image_size": 224}),
        (CPU, 500, {"width": 0.25}, {"encoder": "auto", "width": 0.25}),
        (CPU, 40, {"encoder": "resnet18"}, {"stem": "small", "width": 1.0}),
        (CPU, 41, {"encoder": "resnet18"}, {"stem": "imagenet", "width": 1.0, "image_size": 41}),
        (CPU, 41, {"encoder": "resnet18", "stem": "small"}, {"stem": "small"}),
        (GPU, 41, {"encoder": "resnet18"}, {"stem": "auto"}),
        (CPU, 40, {"batch_size": 8, "workers": 3, "precision": "64-true"},
         {"batch_size": 8, "workers": 3, "precision": "64-true"}),
    ],
)  # fmt: skip
def test_size_encoder_and_batches_follow_the_images_and_the_device(memory, device, side, given, expected):
    memory(None)
    settings = Settings.of(data="photographs", **given)
    flat = chosen(settings, Pictures(10_000, side, settings), device).flat()
    assert {name: flat[name] for name in expected} == expected


def test_images_from_python_stay_as_large_and_as_exact_as_they_are(memory):
    memory(4)
    data = Pictures(side=150, settings=None)
    flat = chosen(OWN, data, CPU).flat()
    assert (flat["image_size"], flat["precision"], flat["encoder"]) == (150, "32-true", "resnet18")
    assert data.cache_limit == 10**9
    assert flat["cache_mb"] == OWN.flat()["cache_mb"]


@pytest.mark.parametrize("device", [CPU, GPU])
@pytest.mark.parametrize(("free", "limit"), [(2_000, 500), (400_000, 1000), (None, 1000)])
def test_decoded_images_take_no_more_than_a_quarter_of_the_memory(memory, device, free, limit):
    memory(free)
    data = Pictures()
    flat = chosen(OWN, data, device).flat()
    assert data.cache_limit == limit * MEGABYTE
    assert flat["cache_mb"] == (OWN.flat()["cache_mb"] if free is None else limit)
    assert (flat["precision"], flat["image_size"]) == ("auto", 64)


@pytest.mark.parametrize(("paths", "cores", "workers"), [(None, 8, 0), (["a.jpg"], 3, 3), (["a.jpg"], 8, 4)])
def test_files_are_read_by_up_to_four_workers(memory, monkeypatch, paths, cores, workers):
    memory(None)
    monkeypatch.setattr(module, "cores", lambda: cores)
    assert chosen(OWN, Pictures(paths=paths), CPU).data.workers == workers


# ---- memory


@pytest.mark.parametrize(
    ("free", "total", "given", "wanted", "fitted"),
    [
        (100, 10**6, {}, {"batch_size": 100}, {"batch_size": 100}),
        (100, 10**6, {}, {"batch_size": 101}, {"batch_size": 96}),
        (900, 1000, {}, {"batch_size": 512}, {"batch_size": 496}),  # half of the memory, where the batch is open
        (900, 1000, {"batch_size": 512}, {}, {"batch_size": 512, "image_size": 96}),
        (32, 10**6, {}, {"batch_size": 64}, {"batch_size": 32, "image_size": 96}),
        (31, 10**6, {}, {"batch_size": 64}, {"batch_size": 64, "image_size": 64}),
    ],
)
def test_batches_shrink_to_multiples_of_eight_and_below_32_the_images_do(memory, free, total, given, wanted, fitted):
    memory(free, total)
    fixed = Settings.of(data="photographs", **given)
    settings = fit_memory(fixed.replace(image_size=96, **wanted), Pictures(side=96), per_image(), fixed)
    assert {name: settings.flat()[name] for name in fitted} == fitted


@pytest.mark.parametrize(("side", "smaller"), [(45, 40), (41, 40), (90, 60)])
def test_images_become_no_smaller_than_40_pixels(memory, side, smaller):
    memory(31)
    settings = fit_memory(OWN.replace(batch_size=64, image_size=side), Pictures(side=side), per_image(), OWN)
    assert settings.data.image_size == smaller
    with pytest.raises(ValueError, match="a smaller --encoder would fit"):
        fit_memory(OWN.replace(batch_size=640), Pictures(side=40), per_image(), OWN)


@pytest.mark.parametrize(("free", "total", "needed"), [(None, 100, 1), (1, None, 1), (1, 100, None)])
def test_where_the_system_does_not_tell_nothing_shrinks(memory, free, total, needed):
    memory(free, total)
    wanted = OWN.replace(batch_size=64)
    assert fit_memory(wanted, Pictures(), per_image(image_bytes=needed), OWN) is wanted


@pytest.mark.parametrize(
    ("device", "given", "fits"),
    [(CPU, {}, False), (CPU, {"cache_folder": "kept"}, True), (GPU, {}, True)],
)
def test_decoded_images_in_the_same_memory_leave_less_for_batches(memory, device, given, fits):
    memory(100, device=device)
    wanted = Settings.of(data="photographs", batch_size=100, **given)
    size = fit_memory(wanted, Pictures(cache_bytes=20 * MEGABYTE), per_image(device), OWN).schedule.batch_size
    assert size == (100 if fits else 80)


@pytest.mark.parametrize(
    ("device", "given", "fits"),
    [
        (GPU, {"devices": 2}, True),
        (GPU, {"nodes": 2}, True),
        (CPU, {"nodes": 2}, True),
        (CPU, {"devices": 2}, False),  # which share a machine's memory
    ],
)
def test_processes_with_memory_of_their_own_share_a_batch(memory, device, given, fits):
    memory(50, device=device)
    wanted = Settings.of(data="photographs", batch_size=100, **given)
    if fits:
        assert fit_memory(wanted, Pictures(), per_image(device), wanted) is wanted
    else:
        with pytest.raises(ValueError, match=r"need about 0\.1 GB of memory"):
            fit_memory(wanted, Pictures(), per_image(device), wanted.replace(batch_size=None))


@pytest.mark.parametrize(
    ("free", "side", "given", "sentence"),
    [
        (2500, 96, {}, "10000 images of 96 pixels need about 10.0 GB of memory, and 2.5 GB are there for them; "
         "--batch-size 2496 or --image-size 48 would fit"),
        (5, 96, {}, "10000 images of 96 pixels need about 10.0 GB of memory, and 0.0 GB are there for them; "
         "--batch-size 5 or a smaller --encoder would fit"),
        (2, 96, {}, "and 0.0 GB are there for them; --batch-size 2 or a smaller --encoder would fit"),
        (1, 96, {}, "0.0 GB are there for them; a smaller --encoder would fit"),
        (400, 81, {}, "--batch-size 400 or --image-size 16 would fit"),
        (400, 79, {}, "--batch-size 400 or a smaller --encoder would fit"),
        (1250, 96, {"nodes": 2}, "10000 images of 96 pixels need about 5.0 GB of memory, and 1.2 GB are there for "
         "them; --batch-size 2496 or --image-size 48 would fit"),
    ],
)  # fmt: skip
def test_what_can_not_fit_is_told_with_what_would(memory, free, side, given, sentence):
    memory(free)
    fixed = Settings.of(data="photographs", batch_size=10_000, image_size=side, **given)
    with pytest.raises(ValueError, match="would fit") as error:
        fit_memory(fixed, Pictures(side=side), per_image(), fixed)
    assert str(error.value).endswith(sentence)


def test_memory_that_decoded_images_fill_is_none_and_not_less_than_none(memory):
    memory(10)
    fixed = Settings.of(data="photographs", batch_size=4, image_size=96)
    with pytest.raises(ValueError, match="and 0.0 GB are there for them; a smaller --encoder would fit"):
        fit_memory(fixed, Pictures(side=96, cache_bytes=2000 * MEGABYTE), per_image(), fixed)
