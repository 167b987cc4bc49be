"""Ranges of raw values: what is measured, what is written, and what becomes of values beyond."""

from __future__ import annotations

import re

import numpy as np
import pytest

from kvicreg.data.intensity import Intensity, intensity_rule, measure_intensity
from kvicreg.data.survey import Survey


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        ((), (), "intensity: expected as many finite lows as highs, got () and ()"),
        ((0.0,), (1.0, 2.0), "intensity: expected as many finite lows as highs, got (0.0,) and (1.0, 2.0)"),
        ((0.0,), (np.inf,), "intensity: expected as many finite lows as highs, got (0.0,) and (inf,)"),
        ((0.0, 3.0), (1.0, 3.0), "intensity: expected every low below its high, got 0:1,3:3"),
    ],
)
def test_a_range_that_is_none_is_refused(low: tuple, high: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Intensity(low, high)


def test_values_become_those_of_an_image() -> None:
    values = np.array([[-5, 0], [50, 100], [100, 300]], np.int16)
    shared = Intensity((0.0,), (100.0,)).apply(values)
    assert shared.dtype == np.float32
    assert shared.tolist() == [[0, 0], [127.5, 255], [255, 255]]
    each = Intensity((0.0, 100.0), (100.0, 300.0))
    assert each.apply(values).tolist() == [[0, 0], [127.5, 0], [255, 255]]
    assert each.apply(values.T, axis=0).tolist() == [[0, 127.5, 255], [0, 0, 255]]
    with pytest.raises(ValueError, match="^intensity: expected 3 ranges, one a channel, got 0:100,100:300$"):
        each.apply(values, axis=0)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("minmax", 0.0), ("0%", 0.0), ("0.5%", 0.5), ("49.9%", 49.9), ("0:4095", Intensity((0.0,), (4095.0,))),
        ("0:1,-2:3.5", Intensity((0.0, -2.0), (1.0, 3.5))),
    ],
)  # fmt: skip
def test_rules_that_are_understood(text: str, rule: object) -> None:
    assert intensity_rule(text) == rule


@pytest.mark.parametrize("text", ["50%", "-0.1%", "x%", "MINMAX", "1", "a:b", "0:1,2", "0:1:2", ""])
def test_rules_that_are_not(text: str) -> None:
    message = (
        "intensity: expected minmax, a percentage to cut off at either end such as 0.5%, or a range such as 0:4095, "
        f"got {text!r}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        intensity_rule(text)
    with pytest.raises(ValueError, match="^intensity: expected every low below its high, got 5:1$"):
        intensity_rule("5:1")


def test_one_and_three_channels_share_a_range_and_others_have_one_each() -> None:
    image = np.arange(12.0).reshape(2, 2, 3)
    assert measure_intensity([image, image + 5]) == Intensity((0.0,), (16.0,))
    assert measure_intensity([image[..., :1]]) == Intensity((0.0,), (9.0,))
    assert measure_intensity([image[..., :2], image[..., :2] - 1]) == Intensity((-1.0, 0.0), (9.0, 10.0))
    assert measure_intensity([]) is None
    assert measure_intensity(iter([]), 5.0) is None


def test_images_of_another_kind_are_left_out_of_the_range() -> None:
    two, three = np.zeros((2, 2, 2)), np.full((2, 2, 3), 9.0)
    two[0, 0] = 4
    assert measure_intensity([two, three, two]) == Intensity((0.0, 0.0), (4.0, 4.0))


def test_equal_values_have_a_range_of_one() -> None:
    image = np.full((2, 2, 2), 7.0)
    image[..., 1] = (0, 5)
    assert measure_intensity([image]) == Intensity((7.0, 0.0), (8.0, 5.0))


@pytest.mark.parametrize("percent", [10.0, 25.0])
def test_percentiles_are_those_of_all_values(percent: float) -> None:
    images = [np.arange(101.0).reshape(-1, 1, 1), np.arange(100.0, 201.0).reshape(-1, 1, 1)]
    measured = measure_intensity(images, percent)
    expected = np.percentile(np.concatenate(images), [percent, 100 - percent])
    assert (measured.low, measured.high) == ((expected[0],), (expected[1],))


def test_of_large_images_evenly_spaced_values_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvicreg.data.intensity._VALUES", 4)
    values = np.array([0, 9, 9, 1, 9, 9, 2, 9, 9, 3.0]).reshape(-1, 1, 1)  # every third one: 10 of 4 rounded up
    measured = measure_intensity([values], 1e-6)
    assert (measured.low[0], measured.high[0]) == pytest.approx((0, 3), abs=1e-3)


SOME = "of the 9 images looked at"
PAGES = "have several pages: only the first is read (pages: channels or images)"
DEEP = "have more than 8 bits: intensity 0:9 is black to white"


@pytest.mark.parametrize(
    ("counts", "pages", "intensity", "is_measured", "notes"),
    [
        ({}, "first", None, True, []),
        ({"alpha": 2}, "first", None, True, [f"2 {SOME} have an alpha channel: they are composited over white"]),
        ({"pages": 3}, "first", None, True, [f"3 {SOME} {PAGES}"]),
        ({"pages": 3}, "images", None, True, []),
        ({"deep": 4}, "first", "0:9", True, [f"4 {SOME} {DEEP}, as measured on them; values beyond are cut"]),
        ({"deep": 4}, "first", "0:9", False, [f"4 {SOME} {DEEP}, as given; values beyond are cut"]),
    ],
)  # fmt: skip
def test_what_is_told_of_the_pixels(counts: dict, pages: str, intensity: str, is_measured: bool, notes: list) -> None:
    looks = Survey(looked_at=9, size=8, channels=3, deep=0, alpha=0, pages=0, most_pages=1)._replace(**counts)
    assert looks.notes(pages, intensity_rule(intensity) if intensity else None, is_measured) == notes
