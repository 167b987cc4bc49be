"""The label-free criteria, against plain numpy and scikit-learn and on cases whose answer is known."""

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestNeighbors

from kvicreg.selection import criteria
from kvicreg.selection.criteria import COMBINED, CRITERIA, combination, consensus, lidar, measure_views, ranks
from kvicreg.selection.facts import noise_level

G = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=G)


@pytest.fixture
def good():
    """Features and two views: ten clusters, views close to their images."""
    x = normal(10, 12).repeat(20, 1) + 0.5 * normal(200, 12)
    return x, [x + 0.05 * normal(200, 12) for _ in range(4)]


def test_all_criteria_are_measured_and_finite(good):
    values = measure_views(*good)
    assert set(values) == set(CRITERIA) - {"loss", "embedding_rank", "consensus", "combination"}
    assert all(np.isfinite(value) for value in values.values())


@pytest.mark.parametrize("name", ["retrieval", "neighbours", "clusters", "cka", "alignment"])
def test_views_that_agree_score_higher_than_views_that_do_not(good, name):
    x, views = good
    noisy = [view + 3 * normal(200, 12) for view in views]
    assert measure_views(x, views)[name] > measure_views(x, noisy)[name]


@pytest.mark.parametrize("name", ["rankme", "effective_rank", "rkhs_rank", "uniformity", "lidar"])
def test_features_on_a_line_score_lower_than_features_that_fill_their_space(good, name):
    x, views = good
    direction = normal(12)
    flat = [(v @ direction).unsqueeze(1) * direction + 1e-3 * normal(200, 12) for v in (x, *views)]
    assert measure_views(x, views)[name] > measure_views(flat[0], flat[1:])[name]


def test_nearest_are_scikit_learns():
    x = normal(50, 6).double()
    centred = (x - x.mean(0)).numpy()
    expected = NearestNeighbors(n_neighbors=6, metric="cosine").fit(centred).kneighbors(centred)[1][:, 1:]
    assert criteria.neighbours(x, 5).sort(1).values.tolist() == np.sort(expected, axis=1).tolist()


def test_retrieval_counts_images_whose_other_view_is_nearest():
    x = torch.eye(8)
    swapped = x.clone()
    swapped[[0, 1]] = x[[1, 0]]
    assert criteria.retrieval(x, x) == 1
    assert criteria.retrieval(x, swapped) == 0.75


def test_cka_does_not_see_rotation_and_scale():
    x = normal(40, 5).double()
    rotation = torch.linalg.qr(normal(5, 5).double())[0]
    assert criteria.centred_alignment(x, 3 * x @ rotation + 2) == pytest.approx(1)
    assert criteria.centred_alignment(x, normal(40, 5)) < 0.5


def test_lidar_is_the_entropy_of_discriminant_analysis():
    images, views, width = 60, 5, 4
    means = normal(images, 1, width).double() * torch.tensor([3.0, 2.0, 1.0, 0.5])
    x = means + normal(images, views, width).double() @ normal(width, width).double()
    rows, labels = x.reshape(-1, width).numpy(), np.repeat(np.arange(images), views)
    model = LinearDiscriminantAnalysis(solver="eigen").fit(rows, labels)
    shares = model.explained_variance_ratio_
    expected = np.exp(-(shares * np.log(shares)).sum())
    assert lidar(x, ridge=0.0) == pytest.approx(expected, rel=1e-6)


def test_consensus_prefers_those_that_agree():
    base = normal(100, 8)
    features = {name: base + 0.3 * normal(100, 8) for name in ("a", "b", "c")} | {"odd": normal(100, 8)}
    agreement = consensus({name: criteria.neighbours(x) for name, x in features.items()})
    assert min(agreement, key=lambda name: agreement[name]) == "odd"


def test_ranks_share_ties_and_put_nan_last():
    assert ranks([3.0, 1.0, 3.0, float("nan")]) == [2.5, 1.0, 2.5, 0.0]


def test_combination_is_the_mean_rank():
    rows = {"a": dict.fromkeys(COMBINED, 2.0), "b": dict.fromkeys(COMBINED, 1.0), "c": dict.fromkeys(COMBINED, 0.0)}
    assert combination(rows) == pytest.approx({"a": 1.0, "b": 0.5, "c": 0.0})


@pytest.mark.parametrize("sigma", [4.0, 12.0])
def test_noise_is_found_under_a_picture(sigma):
    ramp = torch.linspace(40, 200, 32).expand(8, 3, 32, 32)
    noisy = ramp + sigma * 3**0.5 * normal(8, 3, 32, 32)  # the mean of three channels has deviation sigma
    assert noise_level(noisy) == pytest.approx(sigma / 255, rel=0.05)
    assert noise_level(ramp) < 1e-5
