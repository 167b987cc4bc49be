"""Where gamma comes from: medians, floors, and the median smoothed over steps."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.kernels.bandwidth import evenly_spaced, median_of_pairs

RNG = np.random.default_rng(0)


def batch(scale=1.0, rows=8):
    return torch.from_numpy(scale * RNG.normal(size=(rows, 3)))


def median(*views):
    return float(np.median(np.concatenate([pdist(v.numpy(), "sqeuclidean") for v in views])))


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 6])
def test_median_is_numpys(rows):
    matrix = RNG.integers(0, 4, size=(2, rows, rows)).astype(float)  # with ties
    expected = np.median([m[i, j] for m in matrix for i in range(rows) for j in range(i + 1, rows)])
    assert float(median_of_pairs(torch.from_numpy(matrix))) == expected


def test_multiple_widens_the_kernel():
    z = batch()
    gamma = kernels.RBF(kernels.Median(multiple=2.0)).resolve(z).gamma
    assert float(gamma) == pytest.approx(1 / (2 * median(z)))


@pytest.mark.parametrize("rule", [kernels.Median, kernels.Mean])
@pytest.mark.parametrize(("kernel", "power"), [(kernels.RBF, 2), (kernels.Laplacian, 1)])
def test_floor_is_a_distance(kernel, power, rule):
    z = torch.zeros(5, 3)
    assert float(kernel(rule(floor=1e-3)).resolve(z).gamma) == pytest.approx(1e3**power, rel=1e-5)
    assert float(kernel(rule()).resolve(z).gamma) == pytest.approx(1e6**power, rel=1e-5)


def test_a_rule_times_a_factor_is_wider_by_it_and_otherwise_the_same():
    median = kernels.Median(3.0, momentum=0.5, floor=0.1).times(2)
    assert (type(median), median.multiple, median.momentum, median.floor) == (kernels.Median, 6.0, 0.5, 0.1)
    mean = kernels.Mean(3.0, floor=0.1).times(2)
    assert (type(mean), mean.multiple, mean.floor) == (kernels.Mean, 6.0, 0.1)


@pytest.mark.parametrize("shape", [(24, 3), (4, 6, 3), (2, 2, 6, 3)])
def test_mean_is_that_of_the_pairs_within_each_view(shape):
    z = batch(rows=24).reshape(shape)
    mean = np.mean([pdist(view, "sqeuclidean") for view in z.reshape(-1, *shape[-2:]).numpy()])
    assert float(kernels.RBF("mean").resolve(z).gamma) == pytest.approx(1 / mean)


def test_median_has_no_gradient():
    z = batch().requires_grad_()
    assert not kernels.RBF("median").resolve(z).gamma.requires_grad
    assert kernels.RBF().resolve(z).gamma.requires_grad  # the mean has


def test_large_batches_are_represented_by_evenly_spaced_rows(monkeypatch):
    monkeypatch.setattr("kvicreg.kernels.bandwidth.MEDIAN_ROWS", 5)
    z = batch(rows=12)
    rows = [0, 2, 4, 7, 9]
    assert evenly_spaced(12, 5).tolist() == rows
    assert float(kernels.RBF("median").resolve(z).gamma) == pytest.approx(1 / median(z[rows]))


def test_evenly_spaced_rows_are_all_of_them_when_there_are_few():
    assert evenly_spaced(3, 5).tolist() == [0, 1, 2]


def test_smoothed_starts_at_the_first_median_and_follows_the_rest():
    kernel = kernels.RBF(kernels.Median(momentum=0.9)).double()
    first, second = batch(), batch(3.0)
    assert float(kernel.resolve(first).gamma) == pytest.approx(1 / median(first))
    kernel.advance(first)
    assert float(kernel.resolve(second).gamma) == pytest.approx(1 / median(first))
    kernel.advance(second)
    running = 0.9 * median(first) + 0.1 * median(second)
    assert float(kernel.resolve(first).gamma) == pytest.approx(1 / running)
    assert float(kernel.state_dict()["gamma.running"]) == pytest.approx(running)


SMOOTHED = {
    "rbf": lambda rule: kernels.RBF(rule),
    "laplacian": lambda rule: kernels.Laplacian(rule, norm=1),
    "sum": lambda rule: kernels.Linear() + kernels.RBF(rule),
    "product": lambda rule: kernels.Linear() * kernels.RationalQuadratic(rule),
    "per dimension": lambda rule: kernels.PerDimension(kernels.RBF(rule)),
    "self-tuning": lambda rule: kernels.SelfTuning(rule),
    "nested": lambda rule: (kernels.RBF(rule) + kernels.Linear()) * kernels.Linear(),
}


@pytest.mark.parametrize("name", SMOOTHED)
def test_advancing_follows_the_batch_that_resolving_would_take(name):
    rule = kernels.Median(momentum=0.5).double()
    kernel = SMOOTHED[name](rule)
    first, second, third = batch(), batch(3.0), batch(5.0)
    kernel.advance(first)
    start = float(rule.running)
    assert not math.isnan(start)
    for view in (second, third):
        for _ in range(3):
            kernel.resolve(view), kernel(view), kernel.paired(view, view)
    assert float(rule.running) == start
    kernel.advance(second)
    fresh = kernels.Median(momentum=0.5).double()
    SMOOTHED[name](fresh).advance(second)
    assert float(rule.running) == pytest.approx(0.5 * start + 0.5 * float(fresh.running))


@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
def test_resolving_moves_nothing_in_any_mode(mode):
    kernel = kernels.RBF("smoothed").double()
    first = batch()
    kernel.advance(first)
    kernel.train(mode != "eval")
    with torch.set_grad_enabled(mode != "no_grad"):
        assert float(kernel.resolve(batch(5.0)).gamma) == pytest.approx(1 / median(first))
    assert float(kernel.gamma.running) == pytest.approx(median(first))


def test_smoothed_without_history_takes_the_batch_and_keeps_nothing():
    kernel = kernels.RBF("smoothed").double()
    z = batch()
    assert float(kernel.resolve(z).gamma) == pytest.approx(1 / median(z))
    assert math.isnan(float(kernel.gamma.running))


def test_smoothed_moves_once_per_step_of_a_loss():
    criterion = KernelVICRegLoss(kernels.RBF(kernels.Median(momentum=0.5))).double()
    views = [batch(), batch()]
    later = [batch(2.0), batch(2.0)]
    criterion(*views)
    criterion(*later)
    expected = 0.5 * median(*views) + 0.5 * median(*later)
    assert float(criterion.state_dict()["kernel.gamma.running"]) == pytest.approx(expected)


def test_one_point_has_no_median():
    with pytest.raises(ValueError, match="needs at least two points"):
        kernels.RBF()(torch.ones(1, 3))


def test_views_of_different_sizes_are_pooled():
    x, y = batch(rows=10), batch(3.0, rows=20)
    expected = kernels.RBF(1 / median(x, y))(x, y)
    assert expected.shape == (10, 20)
    torch.testing.assert_close(kernels.RBF("median")(x, y), expected)
    one = batch(rows=1)
    torch.testing.assert_close(kernels.RBF("median")(x, one), kernels.RBF(1 / median(x))(x, one))
