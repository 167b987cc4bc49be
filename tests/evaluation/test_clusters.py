"""Clusters are compared with the classes."""

import numpy as np
import pytest
import torch

from kvicreg.evaluation import clustering


def test_clusters_that_are_the_classes_score_one_and_noise_scores_nothing():
    labels = torch.arange(4).repeat(50)
    blobs = torch.eye(4)[labels] * 10 + torch.from_numpy(np.random.default_rng(0).normal(size=(200, 4)))
    result = clustering(blobs, labels)
    assert (result.nmi.value, result.ari.value) == pytest.approx((1, 1))
    shuffled = labels[torch.randperm(200, generator=torch.Generator().manual_seed(0))]
    noise = clustering(blobs, shuffled)
    assert noise.ari.value < 0.05
    assert noise.ari.low <= noise.ari.value <= noise.ari.high
