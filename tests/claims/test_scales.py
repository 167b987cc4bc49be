"""How large the three terms of Kernel VICReg can get, as docs/parametrization.md derives it.

Embeddings with a known spectrum: rows of an orthonormal basis without the constant, through the linear kernel.

1. As printed, with a bounded kernel, the variance term moves by t^2 - (t - 1/sqrt(b - 1))^2 between collapse and the
   flattest spectrum there can be, and by less between any others.
2. Scaled, a flat spectrum reads (t - 1)^2 and, with the diagonal, 1; a line reads (1 - 1/r) t^2 and sqrt(r): for every
   width, scale and batch size.
3. Scaled, above all deviations the variance term is t^2 + 1 - 2 t mean(s).
4. Scaled, without the diagonal a flat spectrum of rank r reads sqrt(1 - r/b).
5. The median distance of one view of real images is that of both views pooled, to a few percent: which of them sets the
   bandwidth is no setting of its own.
6. VICReg, official form: with unit deviations in all p coordinates of b points the covariance of a view is at least
   p / (b - 1) - 1, so that with weights 25, 25, 1 embeddings wider than 33/8 (b - 1) cost less at deviations below 1.
"""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import helmert

from kvicreg import KernelVICRegLoss, VICRegLoss, kernels
from kvicreg.data import Views, load
from kvicreg.models import Projector, build_encoder

SHAPES = [(16, 4), (64, 8), (64, 40), (65, 64)]


def flat(b: int, p: int, scale: float = 1.0) -> torch.Tensor:
    """Centred embeddings (b, p) whose covariance is a multiple of the identity."""
    return torch.from_numpy(scale * math.sqrt(b) * helmert(b)[:p].T)


def line(b: int, p: int, scale: float = 1.0) -> torch.Tensor:
    """Centred embeddings on one line."""
    along = np.where(np.arange(b) % 2 == 0, 1.0, -1.0) if b % 2 == 0 else helmert(b)[-1]
    return torch.from_numpy(scale * np.outer(along, np.ones(p)))


def terms(z, **options):
    """Invariance, variance and covariance of one view, the other being the same."""
    found = KernelVICRegLoss(kernels.Linear(), eps=0.0, spectrum="per-view", **options).terms(z, z)
    return float(found.invariance), float(found.variance) / 2, float(found.covariance) / 2


@pytest.mark.parametrize("b", [8, 64, 256])
def test_the_printed_variance_moves_by_two_over_the_root_of_the_batch_size(b):  # claim 1
    def variance(z, gamma):
        found = KernelVICRegLoss(kernels.RBF(gamma), "paper", threshold=1.0, eps=0.0).terms(z, z)
        return float(found.variance) / 2

    apart, together = 100 * torch.eye(b, dtype=torch.float64), torch.zeros(b, b, dtype=torch.float64)
    deviation = 1 / math.sqrt(b)  # of b - 1 directions: K = I, so that C = H / b
    expected = ((b - 1) * (1 - deviation) ** 2 + 1) / b
    assert variance(apart, 1.0) == pytest.approx(expected, rel=1e-6)
    assert variance(together, 1.0) == pytest.approx(1, abs=1e-6)
    assert 1 - expected == pytest.approx(2 / math.sqrt(b), rel=2 / math.sqrt(b))
    assert 1 - expected <= 1 - (1 - 1 / math.sqrt(b - 1)) ** 2
    generator = torch.Generator().manual_seed(0)
    for gamma in (0.01, 0.1, 1.0):
        assert expected < variance(torch.randn(b, 4, generator=generator).double(), gamma) < 1


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize(("b", "p"), SHAPES)
def test_scaled_terms_of_a_flat_spectrum_and_of_a_line(b, p, scale):  # claim 2
    r = min(b - 1, p)
    for t in (1.0, 1.5):
        invariance, variance, covariance = terms(flat(b, p, scale), threshold=t, include_diagonal=True)
        assert (invariance, variance) == pytest.approx((0, (t - 1) ** 2), abs=1e-6)
        assert covariance == pytest.approx(1, rel=1e-6)
        threshold = min(t, math.sqrt(r))
        _, variance, covariance = terms(line(b, p, scale), threshold=threshold, include_diagonal=True)
        assert variance == pytest.approx((1 - 1 / r) * threshold**2, rel=1e-5)
        assert covariance == pytest.approx(math.sqrt(r), rel=1e-6)


def test_above_all_deviations_the_variance_measures_their_mean():  # claim 3
    rng = np.random.default_rng(0)
    z = rng.normal(size=(50, 6)) * np.array([3, 2, 1, 1, 0.5, 0.1])
    values = np.linalg.eigvalsh(np.cov(z.T, bias=True))
    s = np.sqrt(6 * values / values.sum())
    _, variance, _ = terms(torch.from_numpy(z), threshold=3.0)
    assert s.max() < 3
    assert variance == pytest.approx(9 + 1 - 6 * s.mean(), rel=1e-9)


@pytest.mark.parametrize("b", [16, 64])
@pytest.mark.parametrize("share", [0.25, 0.5])
def test_without_the_diagonal_a_flat_spectrum_depends_on_rank_over_batch_size(b, share):  # claim 4
    r = int(share * b)
    angle = 2 * np.pi * np.outer(np.arange(b), np.arange(1, r // 2 + 1)) / b  # rows of the same length
    z = torch.from_numpy(np.concatenate([np.cos(angle), np.sin(angle)], 1))
    assert terms(z, threshold=1.0)[2] == pytest.approx(math.sqrt(1 - r / b), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_median_of_one_view_is_that_of_both(seed):  # claim 5
    torch.manual_seed(seed)
    data = load("mnist-small", "train")
    rows = torch.randperm(len(data))[:128]
    images, views = data.fetch(rows), Views.of(data)
    encoder = build_encoder("small-cnn", 1, 28, width=0.25)
    projector = Projector(encoder.feature_dim, 64, 64, 3)
    pair = [views(images, rows, seed=seed, epoch=0, view=v) for v in (0, 1)]
    with torch.no_grad():
        embeddings = [projector(encoder(view)).double() for view in pair]
    first, second = (torch.pdist(z).square() for z in embeddings)
    both = np.median(torch.cat([first, second]).numpy())
    assert 1 / float(kernels.RBF("median").resolve(*embeddings).gamma) == pytest.approx(both, rel=1e-6)
    assert np.median(first.numpy()) == pytest.approx(both, rel=0.05)


@pytest.mark.parametrize(("b", "times"), [(9, 1), (9, 3), (17, 4), (17, 8)])
def test_published_vicreg_prefers_small_deviations_where_embeddings_are_wide(b, times):  # claim 6
    p = times * (b - 1)
    evenest = torch.from_numpy(np.tile(math.sqrt(b - 1) * helmert(b).T, times))  # its b - 1 directions share all
    any_other = np.random.default_rng(0).normal(size=(b, p))
    any_other = (any_other - any_other.mean(0)) / any_other.std(0, ddof=1)
    criterion = VICRegLoss(eps=0.0)
    assert float(criterion.terms(evenest, evenest).covariance) / 2 == pytest.approx(p / (b - 1) - 1, abs=1e-6)
    found = criterion.terms(torch.from_numpy(any_other), torch.from_numpy(any_other))
    assert float(found.covariance) / 2 >= p / (b - 1) - 1
    deviations = np.linspace(0.02, 1.5, 149)
    costs = [float(criterion(s * evenest, s * evenest)) for s in deviations]
    least = min(1.0, (25 / (8 * (times - 1))) ** (1 / 3)) if times > 1 else 1.0
    assert deviations[np.argmin(costs)] == pytest.approx(least, abs=0.011)
    assert (least < 1) == (p > 33 / 8 * (b - 1))
