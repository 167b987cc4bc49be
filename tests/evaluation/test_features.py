"""Features come out in order, once, and whole."""

import numpy as np
import pytest
import torch
from torch import nn

from kvicreg.evaluation import FeatureCache, clustering, extract, raw_pixels
from kvicreg.evaluation.features import fingerprint


class Pictures:
    """Seven images whose first pixel is their index."""

    name, split, shape = "pictures", "test", (1, 4, 4)

    def __init__(self) -> None:
        self.labels = torch.arange(7)

    def __len__(self) -> int:
        return 7

    def fetch(self, indices: torch.Tensor) -> torch.Tensor:
        images = torch.zeros(len(indices), 1, 4, 4, dtype=torch.uint8)
        images[:, 0, 0, 0] = indices.to(torch.uint8)
        return images


def test_features_follow_the_order_of_the_images_whatever_the_batch_size():
    for batch_size in (1, 3, 100):
        features = extract(nn.Flatten(), Pictures(), preprocess=lambda x: x.float(), batch_size=batch_size)
        assert features.dtype == torch.float32
        assert features[:, 0].tolist() == list(range(7))


def test_extraction_is_in_eval_mode_and_gives_the_mode_back():
    encoder = nn.Sequential(nn.Flatten(), nn.Dropout(0.9)).train()
    features = extract(encoder, Pictures(), preprocess=lambda x: x.float())
    assert features[:, 0].tolist() == list(range(7))
    assert encoder.training


def test_an_encoder_without_preprocessing_is_refused():
    with pytest.raises(ValueError, match="give preprocess="):
        extract(nn.Flatten(), Pictures())


def test_raw_pixels_are_the_pixels_in_the_unit_interval():
    assert raw_pixels(Pictures()).shape == (7, 16)
    assert raw_pixels(Pictures())[5, 0] == pytest.approx(5 / 255)
    assert raw_pixels(Pictures(), max_features=4).shape == (7, 4)


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
    assert not list((tmp_path / "features").glob("*.part"))


def test_the_fingerprint_sees_pixels_and_labels():
    one, two = Pictures(), Pictures()
    assert fingerprint(one) == fingerprint(two)
    two.labels = torch.zeros(7, dtype=torch.long)
    assert fingerprint(one) != fingerprint(two)


def test_clusters_that_are_the_classes_score_one_and_noise_scores_nothing():
    labels = torch.arange(4).repeat(50)
    blobs = torch.eye(4)[labels] * 10 + torch.from_numpy(np.random.default_rng(0).normal(size=(200, 4)))
    assert clustering(blobs, labels)[:2] == pytest.approx((1, 1))
    assert (
        clustering(blobs, labels[torch.randperm(200, generator=torch.Generator().manual_seed(0))]).ari < 0.05
    )
