"""Neighbours are scikit-learn's, and so are their votes."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from kvicreg.measures import neighbours
from kvicreg.measures.neighbours import knn_predictions, nearest


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = load_digits(return_X_y=True)
    return torch.from_numpy(x[:300]).float(), torch.from_numpy(y[:300]).long()


def test_neighbours_are_scikit_learns_and_leave_the_image_out(digits):
    rows = nearest(digits[0], k=4)
    theirs = NearestNeighbors(n_neighbors=5, metric="cosine").fit(digits[0].numpy()).kneighbors(return_distance=False)
    assert (rows == torch.arange(300)[:, None]).sum() == 0
    assert (rows.numpy() == theirs[:, :4]).mean() > 0.99


def test_neighbours_of_half_precision_are_measured_in_float32(digits):
    x = digits[0]  # whole numbers up to 16: exact in half precision
    assert torch.equal(nearest(x.half(), 4), nearest(x, 4))
    assert nearest(x[:3], 10).shape == (3, 2), "no more neighbours than there are other images"


def test_votes_are_scikit_learns_however_the_queries_are_split(digits, monkeypatch):
    x, y = digits
    model = KNeighborsClassifier(7, metric="cosine", weights=lambda d: np.exp((1 - d) / 0.07))
    theirs = model.fit(x[:200].double().numpy(), y[:200].numpy()).predict(x[200:].double().numpy())
    assert np.array_equal(knn_predictions(x[:200], y[:200], x[200:], k=7).numpy(), theirs)
    monkeypatch.setattr(neighbours, "SIMILARITIES", 1000)
    assert np.array_equal(knn_predictions(x[:200], y[:200], x[200:], k=7).numpy(), theirs)
