"""Confidence intervals cover what they promise, in simulations with a known truth."""

import numpy as np
import pytest
import torch

from kvicreg.evaluation import bootstrap_interval, paired_bootstrap
from kvicreg.evaluation.intervals import holm


def test_intervals_cover_the_true_accuracy_about_95_times_in_100():
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(400):
        interval = bootstrap_interval(torch.from_numpy(rng.random(300) < 0.8).float(), seed=trial, resamples=1000)
        covered += interval.low <= 0.8 <= interval.high
    assert 0.92 <= covered / 400 <= 0.98


def test_paired_differences_are_found_significant_5_times_in_100_when_there_is_none():
    rng = np.random.default_rng(1)
    false_alarms, covered = 0, 0
    for trial in range(400):
        shared = rng.random(300) < 0.6
        a, b = (torch.from_numpy(shared | (rng.random(300) < 0.5)).float() for _ in range(2))
        result = paired_bootstrap(a, b, seed=trial, resamples=1000)
        false_alarms += result.p_value < 0.05
        covered += result.low <= 0 <= result.high
    assert false_alarms / 400 <= 0.08
    assert 0.92 <= covered / 400 <= 0.985


def test_pairing_sees_a_difference_that_two_separate_intervals_do_not():
    a = torch.arange(1000) < 800
    b = torch.arange(1000) < 785
    assert bootstrap_interval(a.float()).low < bootstrap_interval(b.float()).high
    assert paired_bootstrap(a.float(), b.float()).p_value < 0.01


def test_the_interval_is_the_plain_bootstraps():
    scores = torch.tensor([0.0, 0.5, 1.0]).repeat_interleave(torch.tensor([30, 20, 50]))
    ours = bootstrap_interval(scores, resamples=4000)
    rows = np.random.default_rng(7).integers(100, size=(4000, 100))
    low, high = np.quantile(scores.numpy()[rows].mean(1), [0.025, 0.975])
    assert ours.value == pytest.approx(0.6)
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=0.01)


def test_scores_of_different_images_are_refused():
    with pytest.raises(ValueError, match="same images, got 3 and 4"):
        paired_bootstrap(torch.ones(3), torch.ones(4))
    with pytest.raises(ValueError, match="one number per test image"):
        bootstrap_interval(torch.ones(3, 2))


def test_holm_multiplies_the_least_by_their_number_and_keeps_the_order():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
