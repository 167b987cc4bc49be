"""Clusters are compared with the classes."""

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from kvicreg.evaluation import clustering
from kvicreg.evaluation.clusters import adjusted_rand, jackknife, mutual_information


def test_clusters_that_are_the_classes_score_one_and_noise_scores_nothing():
    labels = torch.arange(4).repeat(50)
    blobs = torch.eye(4)[labels] * 10 + torch.from_numpy(np.random.default_rng(0).normal(size=(200, 4)))
    result = clustering(blobs, labels)
    assert (result.nmi.value, result.ari.value) == pytest.approx((1, 1))
    shuffled = labels[torch.randperm(200, generator=torch.Generator().manual_seed(0))]
    noise = clustering(blobs, shuffled)
    assert noise.ari.value < 0.05
    assert noise.ari.low <= noise.ari.value <= noise.ari.high


@pytest.mark.parametrize("clusters", [1, 3, 7])
def test_both_scores_are_scikit_learns(clusters):
    rng = np.random.default_rng(clusters)
    classes, numbers = rng.integers(4, size=100), rng.integers(clusters, size=100)
    tables = contingency_matrix(classes, numbers)[None].astype(float)
    assert mutual_information(tables)[0] == pytest.approx(normalized_mutual_info_score(classes, numbers), abs=1e-9)
    assert adjusted_rand(tables)[0] == pytest.approx(adjusted_rand_score(classes, numbers), abs=1e-9)


@pytest.mark.parametrize("images", [40, 300])
def test_intervals_leave_out_every_image_once_and_hold_the_estimate(images):
    rng = np.random.default_rng(images)
    classes = rng.integers(5, size=images)
    numbers = np.where(rng.random(images) < 0.5, classes, rng.integers(5, size=images))
    pairs = {mutual_information: normalized_mutual_info_score, adjusted_rand: adjusted_rand_score}
    for ours, sklearns in pairs.items():
        interval = jackknife(contingency_matrix(classes, numbers).astype(float), ours)
        left_out = np.array([sklearns(np.delete(classes, i), np.delete(numbers, i)) for i in range(images)])
        error = np.sqrt((images - 1) * np.var(left_out))
        assert interval.value == pytest.approx(sklearns(classes, numbers))
        assert interval.value - interval.low == pytest.approx(1.96 * error)
        assert interval.high == pytest.approx(min(1, interval.value + 1.96 * error))
