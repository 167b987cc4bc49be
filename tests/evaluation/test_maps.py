"""The map is umap-learn's, seeded; its neighbours are scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from kvicreg.evaluation.maps import map_subset, nearest, thumbnails, umap_points


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


def test_neighbours_are_scikit_learns_and_leave_the_image_out(digits):
    found = nearest(digits, k=4)
    theirs = NearestNeighbors(n_neighbors=5, metric="cosine").fit(digits.numpy()).kneighbors(return_distance=False)
    assert (found == torch.arange(300)[:, None]).sum() == 0
    assert (found.numpy() == theirs[:, :4]).mean() > 0.99


def test_the_map_shows_all_of_few_images_and_a_sorted_sample_of_many():
    assert map_subset(5).tolist() == [0, 1, 2, 3, 4]
    kept = map_subset(10_000, cap=100)
    assert len(kept) == 100
    assert torch.equal(kept, kept.sort().values)


def test_thumbnails_are_small_and_have_channels_last():
    assert thumbnails(torch.zeros(2, 3, 96, 96, dtype=torch.uint8)).shape == (2, 32, 32, 3)
    assert thumbnails(torch.full((2, 1, 28, 28), 7, dtype=torch.uint8)).unique().tolist() == [7]
