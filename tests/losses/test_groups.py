"""Group-fair terms: variance and covariance within each group, every group counting the same."""

import numpy as np
import pytest
import torch

from kvicreg import KernelVICRegLoss, kernels, operators

G = torch.Generator().manual_seed(0)
Z1, Z2 = torch.randn(24, 6, generator=G, dtype=torch.float64), torch.randn(24, 6, generator=G, dtype=torch.float64)
GROUPS = torch.tensor([0] * 15 + [1] * 6 + [2] * 2 + [3])  # the last group has one member: it has no variance


def numpy_terms(z, gamma, threshold=1.5, eps=1e-4):
    """Scaled variance and covariance of one view under RBF, in plain numpy."""
    n = len(z)
    gram = np.exp(-gamma * ((z[:, None] - z[None]) ** 2).sum(-1))
    h = np.eye(n) - 1 / n
    centred = h @ gram @ h
    values = np.sort(np.linalg.eigvalsh(centred / n))[::-1][: n - 1].clip(0)
    total = np.trace(centred) / n + eps
    variance = (np.maximum(0, threshold - np.sqrt((n - 1) * values / total + eps)) ** 2).mean()
    off = ((centred**2).sum() - (np.diag(centred) ** 2).sum()) / n**2
    return variance, np.sqrt((n - 1) * off) / total, total


def numpy_loss(gamma_of, weight):
    views = [Z1.numpy(), Z2.numpy()]
    squared = ((views[0] - views[1]) ** 2).sum(-1)
    invariance = (2 - 2 * np.exp(-gamma_of(None) * squared)).mean()
    *whole, total = sum(np.array(numpy_terms(v, gamma_of(None))) for v in views)
    members = [np.flatnonzero(GROUPS.numpy() == g) for g in range(3)]
    within = np.mean([sum(np.array(numpy_terms(v[m], gamma_of(m))) for v in views) for m in members], axis=0)
    variance, covariance = (1 - weight) * np.array(whole) + weight * within[:2]
    return invariance / (total / 2), variance, covariance


def median_gamma(members):
    distances = []
    for z in (Z1.numpy(), Z2.numpy()):
        z = z if members is None else z[members]
        i, j = np.triu_indices(len(z), 1)
        distances.append(((z[i] - z[j]) ** 2).sum(-1))
    return 1 / np.median(np.concatenate(distances))


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("own", [False, True])
def test_terms_are_those_of_plain_numpy(weight, own):
    criterion = KernelVICRegLoss(kernels.RBF("median"), group_weight=weight, group_bandwidth=own, spectrum="per-view")
    terms = criterion.terms(Z1, Z2, groups=GROUPS)
    expected = numpy_loss(median_gamma if own else lambda members: median_gamma(None), weight)
    np.testing.assert_allclose([float(t) for t in terms[1:]], expected, rtol=1e-9)


@pytest.mark.parametrize("approximation", [None, operators.Nystrom(landmarks=60), operators.RandomFourier(features=64)])
@pytest.mark.parametrize("parametrization", ["scaled", "paper"])
def test_one_group_of_all_changes_nothing(approximation, parametrization):
    criterion = KernelVICRegLoss("rbf", parametrization, approximation=approximation)
    torch.testing.assert_close(criterion(Z1, Z2, groups=torch.zeros(24, dtype=torch.long)), criterion(Z1, Z2))


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "laplacian", "rq"])
def test_groups_of_one_member_change_nothing(kernel):
    criterion = KernelVICRegLoss(kernel)
    torch.testing.assert_close(criterion(Z1, Z2, groups=torch.arange(24)), criterion(Z1, Z2))


def test_names_and_order_of_the_groups_do_not_matter():
    criterion = KernelVICRegLoss("laplacian", group_weight=0.7)
    order = torch.randperm(24, generator=G)
    renamed = torch.tensor([40, -1, 7, 5])[GROUPS]
    expected = criterion(Z1, Z2, groups=GROUPS)
    torch.testing.assert_close(criterion(Z1[order], Z2[order], groups=renamed[order]), expected)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("approximation", [None, operators.Nystrom(landmarks=16)])
def test_a_collapsed_minority_is_spread_by_the_group_terms(kernel, approximation):
    """A minority of 3 of 200 that is nearly a point: the whole batch's terms hardly see it, its own terms do."""
    start = torch.randn(200, 8, generator=torch.Generator().manual_seed(1))
    start[:3] = start[0] + 0.01 * torch.randn(3, 8, generator=torch.Generator().manual_seed(2))
    groups = (torch.arange(200) >= 3).long()
    spread = {}
    for weight in (0.0, 0.5):
        z = start.clone().requires_grad_()
        criterion = KernelVICRegLoss(kernel, group_weight=weight, approximation=approximation)
        for _ in range(30):
            (gradient,) = torch.autograd.grad(criterion(z, z, groups=groups), z)
            z = (z - 2.0 * gradient).detach().requires_grad_()
        spread[weight] = float((z[:3] - z[:3].mean(0)).norm().detach() / (start[:3] - start[:3].mean(0)).norm())
    assert spread[0.5] > 2 * spread[0.0]


def test_wrong_groups_are_refused():
    criterion = KernelVICRegLoss("rbf")
    with pytest.raises(ValueError, match="whole number for each of the 24 rows"):
        criterion(Z1, Z2, groups=torch.zeros(23, dtype=torch.long))
    with pytest.raises(ValueError, match="whole number"):
        criterion(Z1, Z2, groups=torch.zeros(24))
    with pytest.raises(ValueError, match="group_weight must be at least 0 and at most 1, got 1.5"):
        KernelVICRegLoss("rbf", group_weight=1.5)
    with pytest.raises(ValueError, match="can't go with a smoothed one"):
        KernelVICRegLoss(kernels.RBF("smoothed"), group_bandwidth=True)
