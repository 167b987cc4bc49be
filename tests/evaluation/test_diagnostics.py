"""The diagnostics read what is known of made-up features."""

import numpy as np
import pytest
import torch

from kvicreg.evaluation.diagnostics import (
    alignment,
    alpha_req,
    class_variance_share,
    diagnose,
    rankme,
    uniformity,
)


def gaussian(n: int, q: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, q)))


def test_effective_rank_of_white_features_is_their_dimension_and_bounded_by_images_less_one():
    wide = diagnose(gaussian(20_000, 10))
    assert wide.effective_rank == pytest.approx(10, abs=0.05)
    assert wide.effective_rank_bound == 10
    few = diagnose(gaussian(6, 100))
    assert few.effective_rank_bound == 5
    assert few.effective_rank <= 5


def test_rankme_is_the_entropy_of_numpys_singular_values():
    x = gaussian(40, 12) + 1
    p = np.linalg.svd(x.numpy(), compute_uv=False)
    p = p / p.sum()
    assert rankme(x) == pytest.approx(float(np.exp(-(p * np.log(p)).sum())), rel=1e-6)


def test_alpha_recovers_the_exponent_of_a_power_law():
    assert alpha_req(torch.arange(1, 200, dtype=torch.float64) ** -1.3) == pytest.approx(1.3)


def test_alignment_and_uniformity_at_their_extremes():
    x = gaussian(500, 16)
    assert alignment(x, 3 * x) == pytest.approx(0, abs=1e-12)
    assert alignment(x, -x) == pytest.approx(4)
    assert uniformity(torch.ones(50, 16)) == pytest.approx(0, abs=1e-9)
    assert uniformity(x) < -3


def test_class_variance_share_is_one_for_points_and_zero_for_equal_means():
    labels = torch.arange(5).repeat(100)
    assert class_variance_share(torch.eye(5)[labels], labels) == pytest.approx(1)
    assert class_variance_share(gaussian(500, 5), labels) < 0.05


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (torch.ones(100, 64) + 1e-5 * gaussian(100, 64), "collapsed to a point"),
        (torch.outer(gaussian(100, 1)[:, 0], torch.ones(64).double()), "collapsed to a line"),
        (gaussian(1000, 3) @ gaussian(3, 512), "partly collapsed"),
        (gaussian(1000, 64), "not collapsed"),
    ],
)
def test_collapse_is_told_in_words(features, words):
    assert diagnose(features).verdict.startswith(words)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="n of 3 or more"):
        diagnose(torch.ones(2, 4))
