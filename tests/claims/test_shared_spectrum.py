"""One spectrum for all views, against numpy in float64.

1. Its Gram matrix is the mean of all V x V blocks, and the terms are those of the formulae, for any number of views.
2. Views that agree have no invariance term, and the spectrum of one of them.
3. Of two views the invariance term is a quarter of their centred squared distance over the mean total variance.
4. With the linear kernel it is the covariance of the images' mean embeddings, on whichever side it is computed.
5. It does not depend on the order of the views, and its gradient is its own.
6. Features in place of the kernel give the same operator: Nystroem with every point a landmark is exact.
7. It has no form in the paper's units; scaled it is the default.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from noisy_views import views

from kvicreg import KernelVICRegLoss, kernels, operators
from kvicreg.losses.three_terms import KernelVICRegOptions, shared_terms, total_variance

GAMMA, EPS, THRESHOLD, WEIGHTS = 0.2, 1e-4, 1.5, (2.0, 1.0, 0.02)


def reference(zs, gram):
    """The terms from scratch: phi_bar by its Gram matrix, C_bar by H K H / b."""
    zs = [z.numpy() for z in zs]
    b, count = len(zs[0]), len(zs)
    h = np.eye(b) - 1 / b
    k_bar = sum(gram(x, y) for x in zs for y in zs) / count**2
    c_bar = h @ k_bar @ h / b
    total = np.mean([np.trace(h @ gram(z, z) @ h) / b for z in zs]) + EPS
    rank = b - 1
    values = np.sort(np.linalg.eigvalsh(c_bar).clip(0))[::-1][:rank]
    variance = np.mean(np.maximum(0, THRESHOLD - np.sqrt(rank * values / total + EPS)) ** 2)
    off = h @ k_bar @ h
    np.fill_diagonal(off, 0)
    covariance = np.sqrt(rank) * np.linalg.norm(off) / b / total
    invariance = (total - EPS - np.trace(c_bar)) / total
    return invariance, variance, covariance


def rbf(x, y):
    return np.exp(-GAMMA * ((x[:, None] - y[None]) ** 2).sum(-1))


def shared(kernel, **settings):
    return KernelVICRegLoss(kernel, spectrum="shared", **settings)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_the_terms_are_those_of_the_formulae(count):
    zs = views(count)
    terms = shared(kernels.RBF(gamma=GAMMA)).terms(*zs)
    invariance, variance, covariance = reference(zs, rbf)
    assert terms.invariance.item() == pytest.approx(invariance, rel=1e-9)
    assert terms.variance.item() == pytest.approx(variance, rel=1e-9)
    assert terms.covariance.item() == pytest.approx(covariance, rel=1e-9)
    total = np.dot(WEIGHTS, (invariance, variance, covariance))
    assert terms.total.item() == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf", "laplacian", "rq", "rbf+linear"])
def test_views_that_agree_have_the_spectrum_of_one_of_them(kernel):
    z = views(1)[0]
    together, alone = (
        KernelVICRegLoss(kernel, spectrum=form).terms(*(z,) * count) for form, count in (("shared", 3), ("per-view", 2))
    )
    assert together.invariance.item() == pytest.approx(0, abs=1e-9)
    assert together.variance.item() == pytest.approx(alone.variance.item() / 2, rel=1e-9)
    assert together.covariance.item() == pytest.approx(alone.covariance.item() / 2, rel=1e-9)


def test_of_two_views_the_invariance_is_a_quarter_of_their_centred_distance():
    one, two = views(2)
    difference = one - two
    centred = (difference - difference.mean(0)).square().sum(1).mean()
    operator, total = operators.shared_operator([one, two], kernels.Linear())
    torch.testing.assert_close(total - operator.trace(), centred / 4)


@pytest.mark.parametrize(("b", "p"), [(12, 5), (5, 12)])
def test_with_the_linear_kernel_it_is_the_covariance_of_the_mean_embeddings(b, p):
    zs = views(3, b, p)
    operator, _ = operators.shared_operator(zs, kernels.Linear())
    mean = torch.stack(zs).mean(0)
    covariance = torch.cov(mean.T, correction=0)
    expected = torch.linalg.eigvalsh(covariance).flip(0)[: min(b, p)].clamp_min(0)
    torch.testing.assert_close(operator.eigenvalues()[: min(b - 1, p)], expected[: min(b - 1, p)])


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf", "laplacian"])
def test_its_gradient_is_its_own_and_it_does_not_know_the_order_of_the_views(kernel):
    fixed = kernels.make(kernel, **({"gamma": 0.2} if kernel != "linear" else {}))
    zs = [z.requires_grad_() for z in views(3, 6, 3)]
    criterion = shared(fixed)
    assert torch.autograd.gradcheck(lambda *z: criterion(*z), zs, atol=1e-6)
    torch.testing.assert_close(criterion(*zs), criterion(zs[2], zs[0], zs[1]))


def test_nystrom_with_every_point_is_exact():
    zs = views(2, 8, 3)
    exact = shared(kernels.RBF(gamma=GAMMA)).terms(*zs)
    approximate = shared(kernels.RBF(gamma=GAMMA), approximation=operators.Nystrom(landmarks=16)).terms(*zs)
    torch.testing.assert_close(torch.stack(list(approximate)), torch.stack(list(exact)), rtol=1e-5, atol=1e-6)


def test_it_is_the_default_and_has_no_form_in_the_papers_units():
    zs = views(3)
    torch.testing.assert_close(KernelVICRegLoss("rbf")(*zs), shared("rbf")(*zs), rtol=0, atol=0)
    assert KernelVICRegLoss("rbf", "paper").spectrum == "per-view"
    with pytest.raises(ValueError, match='it has no parametrization "paper"'):
        shared("rbf", parametrization="paper")


def test_what_may_be_round_off_counts_as_variance_that_is_there():
    operator = operators.CovarianceOperator(torch.diag(torch.tensor([2.0, 1.0, 0.0])), 0.5, 3, 2, round_off=0.25)
    options = KernelVICRegOptions(eps=0.125)
    unit = 2.0 + 0.125 + 0.25
    terms = shared_terms(operator, torch.tensor(2.0), options)
    assert float(terms.invariance) == pytest.approx((unit - 0.125 - 1.5) / unit)
    deviations = (2 * np.array([1.0, 0.5]) / unit + 0.125) ** 0.5
    assert float(terms.variance) == pytest.approx(np.mean(np.maximum(0, 1.5 - deviations) ** 2))
    assert float(total_variance(operator, 0.125)) == 1.5 + 0.125 + 0.25
