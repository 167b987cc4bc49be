"""Differences image by image: stored as bits, bootstrapped over seeds and images, corrected for their number."""

import numpy as np
import pytest

from experiments.common import Job
from experiments.common.correct import (
    differences,
    differences_table,
    gather_correct,
    hierarchical_difference,
    margin_changes,
    read_correct,
    store_correct,
)


def test_which_images_were_right_comes_back_bit_by_bit(tmp_path):
    right = {"probe": np.arange(13) % 3 == 0, "knn": np.zeros(5, dtype=bool)}
    store_correct(tmp_path / "runs" / "correct.npz", right)
    back = read_correct(tmp_path / "runs" / "correct.npz")
    assert back.keys() == right.keys()
    for name, expected in right.items():
        np.testing.assert_array_equal(back[name], expected)
    assert read_correct(tmp_path / "none.npz") == {}


def test_with_one_seed_the_interval_is_that_of_a_mean_over_images():
    rng = np.random.default_rng(0)
    a, b = rng.random(4000) < 0.6, rng.random(4000) < 0.5
    difference = hierarchical_difference([a], [b])
    margin = a.astype(float) - b
    half = 196 * margin.std() / np.sqrt(len(margin))
    assert difference.points == pytest.approx(100 * margin.mean())
    assert difference.high - difference.low == pytest.approx(2 * half, rel=0.1)
    assert difference.p_value < 0.01


def test_seeds_that_disagree_widen_the_interval():
    images = np.ones(1000, dtype=bool)
    few = images.copy()
    few[:200] = False
    level = hierarchical_difference([images, few, few], [few, images, few])
    assert level.points == pytest.approx(0)
    assert level.low < -10  # the images alone would leave no width here at all
    assert level.high > 10
    assert level.p_value > 0.5


def test_the_chance_of_seeds_is_as_wide_as_their_standard_error():
    images = np.arange(1000) / 1000
    right = [images < share for share in (0.5, 0.6, 0.7)]
    difference = hierarchical_difference(right, [np.zeros(1000, dtype=bool)] * 3)
    of_seeds, of_images = 10 / np.sqrt(3), 100 * np.sqrt(np.mean(np.mean(right, axis=0) ** 2) - 0.6**2) / np.sqrt(1000)
    half = (difference.high - difference.low) / 2
    assert half == pytest.approx(1.96 * np.hypot(of_seeds, of_images), rel=0.08)


@pytest.mark.parametrize(
    ("scatter", "least", "most", "told"), [(0.4, 0.93, 1.0, 0.0), (0.8, 0.88, 0.98, 0.03), (1.5, 0.78, 0.93, 0.1)]
)
def test_how_often_three_seeds_hold_the_truth_and_tell_what_is_level_apart(scatter, least, most, told):
    """As the tables say of themselves: two methods, level on average, that are right on other images in 22 of 100."""
    rng, held, apart = np.random.default_rng(1), 0, 0
    for seed in range(120):
        margins = rng.normal(0, scatter / 100, size=3)
        chance = rng.random((3, 10_000))
        ours = chance < (0.22 + margins[:, None]) / 2
        theirs = ~ours & (chance < 0.22)
        difference = hierarchical_difference(list(ours), list(theirs), resamples=1000, seed=seed)
        held += difference.low <= 0 <= difference.high
        apart += difference.p_value < 0.0025
    assert least <= held / 120 <= most
    assert apart / 120 <= told


def test_a_single_seed_has_an_interval_and_a_mark_and_no_corrected_p_value():
    job, rng = Job("smoke"), np.random.default_rng(0)
    cells = [job.cell({"name": name}, data="mnist", seed=seed) for name in ("ours", "theirs") for seed in (0, 1)]
    correct = {
        f"mnist, {name}, seed {seed}: probe": rng.random(1000) < share
        for name, share in (("ours", 0.9), ("theirs", 0.5))
        for seed in (0, 1)
    }
    (both,), (one,) = differences(cells, correct, "theirs", ()), differences(cells[::2], correct, "theirs", ())
    assert both["p_corrected"] < 0.05
    assert one["p_corrected"] is None
    assert one["low"] > 30
    assert one["scatter"] is None
    right = [[correct[f"mnist, {name}, seed {seed}: probe"] for seed in (0, 1)] for name in ("ours", "theirs")]
    assert both["scatter"] == pytest.approx(100 * np.subtract(*np.mean(right, axis=2)).std(ddof=1), abs=1e-4)
    assert "70.0 points in the middle" in differences_table([{**both, "scatter": 70.0}], ("score",))
    assert differences_table([both, {**both, "name": "more", "seeds": 3}], ("score",)).count(", 2 seeds") == 1
    assert " * |" in differences_table([both], ("score",))
    assert "†" not in differences_table([both], ("score",))
    assert " † |" in differences_table([one], ("score",))
    assert "*:" not in differences_table([one], ("score",))


def test_what_was_right_is_kept_under_the_names_of_the_table_and_compared_seed_by_seed(tmp_path):
    job = Job("smoke", runs=tmp_path / "runs", out=tmp_path)
    pairs = [(name, seed) for name in ("ours", "theirs") for seed in (0, 1)]
    cells = [job.cell({"name": name}, data="mnist", seed=seed, batch_size=len(name)) for name, seed in pairs]
    for cell, share in zip(cells, (0.8, 0.9, 0.5, 0.6), strict=True):
        store_correct((job.runs / cell.result).with_suffix(".npz"), {"probe": np.arange(100) < 100 * share})
    kept = gather_correct(job, "table", cells)
    assert list(kept) == [f"mnist, {name}, seed {seed}: probe" for name, seed in pairs]

    elsewhere = Job("smoke", runs=tmp_path / "nothing", out=tmp_path)
    again = gather_correct(elsewhere, "table", cells)
    assert all(np.array_equal(again[key], right) for key, right in kept.items())
    (row,) = differences(cells, again, "theirs", ())
    assert (row["name"], row["score"], row["seeds"], row["points"]) == ("ours", "probe", 2, 30)
    some = gather_correct(elsewhere, "table", cells[:3])
    assert differences(cells[:3], some, "theirs", ())[0]["seeds"] == 1


def test_a_margin_that_shrinks_with_training_is_told_over_the_seeds_of_all_four_runs():
    job, right = Job("smoke"), {"ours": (0.8, 0.9), "theirs": (0.5, 0.7)}
    names = [(name, epochs, seed) for name in right for epochs in (1, 3) for seed in (0, 1)]
    cells = [job.cell({"name": name, "epochs": e}, data="mnist", seed=s, epochs=e) for name, e, s in names]
    correct = {
        f"mnist, {name}, {epochs}, seed {seed}: probe": np.arange(100) < 100 * right[name][epochs == 3]
        for name, epochs, seed in names
    }
    (row,) = margin_changes(cells, correct, "theirs", "epochs")
    assert (row["name"], row["from"], row["to"], row["score"], row["seeds"]) == ("ours", 1, 3, "probe", 2)
    assert row["points"] == pytest.approx(-10)
    assert row["low"] < -10 < row["high"]
    del correct["mnist, theirs, 3, seed 1: probe"]
    assert margin_changes(cells, correct, "theirs", "epochs")[0]["seeds"] == 1


def test_runs_that_are_measured_on_several_data_are_compared_on_each():
    job, shares = Job("smoke"), {"ours": (0.8, 0.6), "theirs": (0.5, 0.5)}
    cells = [
        job.cell({"name": name}, target=target, data="cifar10", seed=0)
        for name in shares
        for target in ("stl10", "/data/stl-like")
    ]
    correct = {
        f"{target}, {name}, seed 0: probe": np.arange(100) < 100 * share
        for name, of in shares.items()
        for target, share in zip(("stl10", "stl-like"), of, strict=True)
    }
    points = {row["data"]: row["points"] for row in differences(cells, correct, "theirs", ("data",))}
    assert points == {"stl10": pytest.approx(30), "stl-like": pytest.approx(10)}
