"""The map is umap-learn's, seeded, of a sample of the images."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from kvicreg.evaluation.maps import map_subset, thumbnails, umap_points


@pytest.fixture(scope="module")
def digits() -> torch.Tensor:
    return torch.from_numpy(load_digits().data[:300]).float()


@pytest.mark.slow
def test_points_are_umap_learns_and_the_same_twice(digits):
    import umap

    ours = umap_points(digits, seed=3)
    theirs = umap.UMAP(metric="cosine", random_state=3, n_jobs=1).fit_transform(digits.numpy())
    np.testing.assert_array_equal(ours.numpy(), theirs)
    threads = torch.get_num_threads()
    assert torch.equal(ours, umap_points(digits, seed=3))
    assert torch.get_num_threads() == threads, "what is computed next may not depend on whether a map was drawn"


def test_the_map_shows_all_of_few_images_and_a_sorted_sample_of_many():
    assert map_subset(5).tolist() == [0, 1, 2, 3, 4]
    rows = map_subset(10_000, cap=100)
    assert len(rows) == 100
    assert torch.equal(rows, rows.sort().values)


def test_thumbnails_are_small_and_have_channels_last():
    assert thumbnails(torch.zeros(2, 3, 96, 96, dtype=torch.uint8)).shape == (2, 32, 32, 3)
    assert thumbnails(torch.full((2, 1, 28, 28), 7, dtype=torch.uint8)).unique().tolist() == [7]
