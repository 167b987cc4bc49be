"""Features come out in order, once, and whole."""

import numpy as np
import pytest
import torch
from kvicreg.evaluation.features import fingerprint
from torch import nn

from kvicreg.data import ArrayData
from kvicreg.evaluation import FeatureCache, clustering, extract


def pictures() -> ArrayData:
    """Seven images whose first pixel is their index."""
    images = torch.zeros(7, 1, 4, 4, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.arange(7)
    return ArrayData(images, torch.arange(7), name="pictures", split="test")


def test_features_follow_the_order_of_the_images_whatever_the_batch_size():
    for batch_size in (1, 3, 100):
        features = extract(nn.Flatten(), pictures(), preprocess=lambda x: x.float(), batch_size=batch_size)
        assert features.dtype == torch.float32
        assert features[:, 0].tolist() == list(range(7))


def test_extraction_is_in_eval_mode_and_gives_the_mode_back():
    encoder = nn.Sequential(nn.Flatten(), nn.Dropout(0.9)).train()
    features = extract(encoder, pictures(), preprocess=lambda x: x.float())
    assert features[:, 0].tolist() == list(range(7))
    assert encoder.training


def test_an_encoder_without_preprocessing_is_refused():
    with pytest.raises(ValueError, match="give preprocess="):
        extract(nn.Flatten(), pictures())


def test_the_cache_computes_once_and_again_when_its_file_is_damaged(tmp_path):
    cache, calls = FeatureCache(tmp_path / "features"), []

    def compute() -> torch.Tensor:
        calls.append(1)
        return torch.eye(3)

    assert torch.equal(cache.get(compute, "a", 1), torch.eye(3))
    assert torch.equal(cache.get(compute, "a", 1), torch.eye(3))
    assert len(calls) == 1
    cache.path("a", 1).write_bytes(b"\x93NUMPY damaged")
    assert torch.equal(cache.get(compute, "a", 1), torch.eye(3))
    assert len(calls) == 2
    cache.get(compute, "b", 1)
    assert len(calls) == 3
    assert sorted(path.suffix for path in (tmp_path / "features").iterdir()) == [".npy", ".npy"]


def test_the_fingerprint_sees_pixels_and_labels():
    one, two = pictures(), pictures()
    assert fingerprint(one) == fingerprint(two)
    two.labels = torch.zeros(7, dtype=torch.long)
    assert fingerprint(one) != fingerprint(two)


def test_clusters_that_are_the_classes_score_one_and_noise_scores_nothing():
    labels = torch.arange(4).repeat(50)
    blobs = torch.eye(4)[labels] * 10 + torch.from_numpy(np.random.default_rng(0).normal(size=(200, 4)))
    found = clustering(blobs, labels)
    assert (found.nmi.value, found.ari.value) == pytest.approx((1, 1))
    shuffled = labels[torch.randperm(200, generator=torch.Generator().manual_seed(0))]
    noise = clustering(blobs, shuffled)
    assert noise.ari.value < 0.05
    assert noise.ari.low <= noise.ari.value <= noise.ari.high
