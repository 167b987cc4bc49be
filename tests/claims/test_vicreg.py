"""VICReg, in each of the forms that circulate, equals its published formula.

1. "paper": the review in the Kernel VICReg paper: invariance summed over the coordinates, squared hinge, variance and
   covariance summed over the views.
2. "official": the method's own code: mean squared error, hinge without square averaged over the views, covariance
   summed over the views; it is also pytorch-metric-learning's `VICRegLoss`, to 1e-6.
3. "solo-learn": as official, with the variance summed over the views.
4. The covariance term is the same whether p < b or p >= b.
5. With more than two views it is the mean over all pairs of views.
6. Gradients are those of the published formula.
"""

from itertools import combinations

import numpy as np
import pytest
import torch
from pytorch_metric_learning.losses import VICRegLoss as PeerVICRegLoss

from kvicreg import VICRegLoss
from kvicreg.losses import vicreg_terms

RNG = np.random.default_rng(4)
SHAPES = [(12, 5), (6, 6), (5, 12), (2, 3)]


def views(shape, count=2):
    return [RNG.normal(size=shape) * RNG.uniform(0.2, 1.5, size=shape[1]) for _ in range(count)]


def published(convention, x, y, threshold=1.0, eps=1e-4):
    """(invariance, variance, covariance) of two views."""
    p = x.shape[1]

    def hinges(z):
        deviations = np.sqrt(z.var(axis=0, ddof=1) + eps)
        return np.maximum(threshold - deviations, 0)

    def off_diagonal(z):
        c = np.atleast_2d(np.cov(z.T))
        return ((c**2).sum() - (np.diag(c) ** 2).sum()) / p

    covariance = off_diagonal(x) + off_diagonal(y)
    if convention == "paper":
        invariance = np.mean(((x - y) ** 2).sum(axis=1))
        return invariance, np.mean(hinges(x) ** 2) + np.mean(hinges(y) ** 2), covariance
    variance = np.mean(hinges(x)) + np.mean(hinges(y))
    return np.mean((x - y) ** 2), variance / 2 if convention == "official" else variance, covariance


@pytest.mark.parametrize("convention", ["paper", "official", "solo-learn"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", [{}, {"threshold": 0.5}, {"eps": 1e-2}], ids=str)
def test_convention_is_its_published_formula(convention, shape, options):  # claims 1 to 4
    x, y = views(shape)
    ours = VICRegLoss(convention, **options).terms(torch.from_numpy(x), torch.from_numpy(y))
    expected = published(convention, x, y, **options)
    np.testing.assert_allclose([float(t) for t in ours[1:]], expected, rtol=1e-10, atol=1e-14)
    assert float(ours.total) == pytest.approx(np.dot([25, 25, 1], expected), rel=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_official_is_pytorch_metric_learnings(shape):  # claim 2
    x, y = (torch.from_numpy(v) for v in views(shape))
    peer = PeerVICRegLoss(invariance_lambda=25, variance_mu=25, covariance_v=1, eps=1e-4)
    torch.testing.assert_close(VICRegLoss()(x, y), peer(x, ref_emb=y), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradient_is_pytorch_metric_learnings(shape):  # claim 6
    x, y = (torch.from_numpy(v) for v in views(shape))
    gradients = []
    for criterion in (VICRegLoss(), lambda a, b: PeerVICRegLoss(eps=1e-4)(a, ref_emb=b)):
        a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
        gradients.append(torch.autograd.grad(criterion(a, b), (a, b)))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("convention", ["paper", "official", "solo-learn"])
def test_more_views_are_the_mean_over_the_pairs(convention):  # claim 5
    many = views((7, 4), count=4)
    ours = vicreg_terms(*[torch.from_numpy(v) for v in many], convention=convention)
    expected = np.mean([published(convention, x, y) for x, y in combinations(many, 2)], axis=0)
    np.testing.assert_allclose([float(t) for t in ours[1:]], expected, rtol=1e-10)


@pytest.mark.parametrize("convention", ["paper", "official", "solo-learn"])
@pytest.mark.parametrize("shape", [(5, 3), (4, 6)])
def test_gradcheck(convention, shape):  # claim 6
    x, y = (torch.from_numpy(v).requires_grad_() for v in views(shape))
    assert torch.autograd.gradcheck(VICRegLoss(convention), (x, y))
