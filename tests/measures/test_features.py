"""Features come out in order, once, and whole."""

import pytest
import torch
from torch import nn

from kvicreg.data import ArrayData
from kvicreg.measures.features import FeatureCache, extract, fingerprint, stream_features


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


def test_grey_images_reach_the_convolutions_with_channels_last():
    layouts = []
    encoder = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten())
    encoder[0].register_forward_hook(
        lambda module, inputs, output: layouts.append(output.is_contiguous(memory_format=torch.channels_last))
    )
    extract(encoder, pictures(), preprocess=lambda x: x.float())
    assert layouts == [True], "about twice as fast"
    assert encoder[0].weight.is_contiguous(), "the encoder is left as it was"


def test_streamed_features_come_with_the_index_of_the_image_they_show():
    batches = list(stream_features(nn.Flatten(), pictures(), preprocess=lambda x: x.float(), batch_size=4))
    assert [samples.tolist() for _, samples in batches] == [[0, 1, 2, 3], [4, 5, 6]]
    assert all(torch.equal(features[:, 0], samples.float()) for features, samples in batches)


def test_every_submodules_own_mode_comes_back():
    encoder = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(16), nn.Dropout(0.5)).train()
    encoder[1].eval()
    extract(encoder, pictures(), preprocess=lambda x: x.float())
    assert [module.training for module in encoder] == [True, False, True]
    assert encoder[1].num_batches_tracked == 0
