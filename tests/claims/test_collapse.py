"""What Kernel VICReg says about collapse.

1. The centred Gram matrix always has the eigenvalue 0, for the vector of ones; Proposition 1 is about the other b - 1
   directions. If all of them have standard deviation at least the threshold, K_hat has rank b - 1, and the variance
   term is only the constant of the one zero direction (nothing at all when scaled).
2. Conversely a rank-one batch pays for every other direction.
3. Under a universal kernel any distinct points have rank b - 1 (no batch of distinct points is forbidden).
4. With a fixed scale the variance term is largest at exact collapse, where it is 2 (threshold - sqrt(eps))^2.
5. Exact collapse is a stationary point: the gradient there is zero and finite.
6. From collapse plus noise, descent steps on the loss raise the effective rank and lower the variance term.
7. The remark after Proposition 1: a rank-one batch with unit variance in every coordinate satisfies VICReg's variance
   term and not ours.
8. With the median or the mean distance for a bandwidth the loss does not depend on the scale of the embeddings, and its
   gradient grows as 1 / scale; below the floor of the median the loss sees the collapse again.
9. For a kernel with k(x, x) = 1 not every standard deviation can exceed 1 / sqrt(b - 1).
"""

from functools import partial

import numpy as np
import numpy_reference as reference
import pytest
import torch
from kernel_pairs import PAIRS

from kvicreg import KernelVICRegLoss, VICRegLoss, kernels
from kvicreg.operators import covariance_operator

RNG = np.random.default_rng(3)
EPS = 1e-4
STATIONARY = ["rbf", "laplacian", "laplacian-l1", "rq"]


def normal(*shape):
    return torch.from_numpy(RNG.normal(size=shape))


@pytest.mark.parametrize("name", PAIRS)
def test_the_vector_of_ones_always_has_eigenvalue_zero(name):  # claim 1
    z = normal(6, 20)  # more coordinates than samples: nothing else is zero
    values = covariance_operator(z, PAIRS[name][0]()).eigenvalues()
    assert len(values) == 6
    assert abs(float(values[-1].detach())) < 1e-12
    assert float(values[-2].detach()) > 1e-6


def test_a_satisfied_threshold_means_rank_b_minus_one():  # claim 1
    b, p, threshold = 8, 12, 0.5
    columns, _ = np.linalg.qr(reference.centring(b) @ RNG.normal(size=(b, b - 1)))
    deviations = np.linspace(threshold, 3 * threshold, b - 1)
    z = np.sqrt(b) * columns * deviations @ np.linalg.qr(RNG.normal(size=(p, b - 1)))[0].T
    assert np.linalg.matrix_rank(reference.double_centred(z @ z.T)) == b - 1
    view = torch.from_numpy(z)
    paper = KernelVICRegLoss("linear", "paper", threshold=threshold).terms(view, view)
    assert float(paper.variance) == pytest.approx(2 * (threshold - EPS**0.5) ** 2 / b, rel=1e-9)
    # scaled: the smallest variance in units of the mean one
    relative = threshold / np.sqrt((deviations**2).mean())
    scaled = KernelVICRegLoss("linear", "scaled", threshold=0.999 * relative).terms(view, view)
    assert float(scaled.variance) == 0


@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
def test_a_rank_one_batch_pays_for_every_other_direction(parametrization):  # claim 2
    b, p = 10, 5
    line = normal(b, 1) * 100 @ torch.ones(1, p, dtype=torch.float64)
    terms = KernelVICRegLoss("linear", parametrization, threshold=1, spectrum="per-view").terms(line, line)
    missing = {"paper": (b - 1) / b, "scaled": (p - 1) / p}[parametrization]
    assert float(terms.variance) == pytest.approx(2 * missing * (1 - EPS**0.5) ** 2, rel=1e-9)


@pytest.mark.parametrize("name", STATIONARY)
def test_distinct_points_have_full_rank_under_a_universal_kernel(name):  # claim 3
    line = torch.arange(6, dtype=torch.float64)[:, None] * torch.ones(1, 3, dtype=torch.float64)
    values = covariance_operator(line, PAIRS[name][0]()).eigenvalues()
    assert float(values[-2]) > 1e-9
    assert np.linalg.matrix_rank(reference.double_centred(PAIRS[name][1].gram(line.numpy(), line.numpy()))) == 5


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
def test_variance_term_is_largest_at_exact_collapse(name, parametrization):  # claim 4
    criterion = KernelVICRegLoss(PAIRS[name][0](), parametrization, spectrum="per-view")
    collapsed = normal(1, 4).expand(9, 4).contiguous()
    worst = float(criterion.terms(collapsed, collapsed).variance.detach())
    assert worst == pytest.approx(2 * (criterion.threshold - EPS**0.5) ** 2, rel=1e-6)
    for scale in (1e-3, 1e-1, 1.0, 10.0):
        other = float(criterion.terms(scale * normal(9, 4), scale * normal(9, 4)).variance.detach())
        assert other < worst


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
def test_exact_collapse_is_stationary(name, parametrization):  # claim 5
    collapsed = normal(1, 4).expand(9, 4).clone().requires_grad_()
    KernelVICRegLoss(PAIRS[name][0](), parametrization)(collapsed, collapsed).backward()
    assert float(collapsed.grad.abs().max()) < 1e-9


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
@pytest.mark.parametrize("noise", [1e-3, 1e-1])
def test_descent_from_collapse_plus_noise_spreads_the_spectrum(name, parametrization, noise):  # claim 6
    # the variance term alone: the descent direction is its own. One short step must lower it and spread the variance,
    # over more directions where it is measured in units of its total, else in all.
    criterion = KernelVICRegLoss(PAIRS[name][0](), parametrization, 0.0, 1.0, 0.0)
    start = (normal(1, 4) + noise * normal(9, 4)).requires_grad_()
    before = criterion.terms(start, start)
    (gradient,) = torch.autograd.grad(before.total, start)
    after = (start - 0.01 * noise * gradient / gradient.abs().max()).detach()
    assert float(criterion(after, after).detach()) < float(before.total.detach())
    spread = [covariance_operator(z.detach(), PAIRS[name][0]()) for z in (start, after)]
    if parametrization == "scaled":
        assert float(spread[1].effective_rank().detach()) > float(spread[0].effective_rank().detach())
    else:
        assert float(spread[1].trace().detach()) > float(spread[0].trace().detach())


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian", "rq"])
def test_training_with_the_whole_loss_leaves_collapse(name):  # claim 6, over many steps
    criterion = KernelVICRegLoss(PAIRS[name][0](), "scaled")
    z = (normal(1, 8) + 1e-2 * normal(16, 8)).requires_grad_()
    start = float(covariance_operator(z.detach(), PAIRS[name][0]()).trace())
    optimiser = torch.optim.Adam([z], lr=0.05)
    for _ in range(100):
        optimiser.zero_grad()
        criterion(z, z + 0.01 * normal(16, 8)).backward()
        optimiser.step()
    operator = covariance_operator(z.detach(), PAIRS[name][0]())
    assert float(operator.trace()) > 10 * start
    assert float(operator.effective_rank()) > 0.5 * operator.rank_bound


def test_a_line_satisfies_vicregs_variance_term_and_not_ours():  # claim 7
    b, p = 32, 16
    coordinate = RNG.normal(size=(b, 1))
    coordinate = (coordinate - coordinate.mean()) / coordinate.std(ddof=1)
    line = torch.from_numpy(coordinate * np.ones((1, p)))
    assert np.linalg.matrix_rank(line.numpy()) == 1
    assert float(VICRegLoss("paper").terms(line, line).variance) == 0
    assert float(VICRegLoss("official").terms(line, line).variance) == 0
    flat_out = 2 * (1 - EPS**0.5) ** 2
    assert float(KernelVICRegLoss("linear", "paper").terms(line, line).variance) > 0.9 * flat_out
    assert float(KernelVICRegLoss("linear", "scaled").terms(line, line).variance) > 0.9 * flat_out
    spread = normal(b, p)
    for kernel in ("rbf", "laplacian", "rq"):
        criterion = KernelVICRegLoss(kernel, "scaled")
        assert float(criterion.terms(line, line).variance) > 2 * float(criterion.terms(spread, spread).variance)


@pytest.mark.parametrize(
    "kernel",
    [kernels.RBF, kernels.RationalQuadratic, kernels.Laplacian, partial(kernels.Laplacian, norm=1)],
    ids=STATIONARY,
)
@pytest.mark.parametrize("gamma", ["median", "mean"])
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_a_bandwidth_from_the_batch_makes_the_loss_blind_to_scale(kernel, gamma, parametrization, scale):  # claim 8
    criterion = KernelVICRegLoss(kernel(gamma), parametrization)
    x, y = normal(9, 4).requires_grad_(), normal(9, 4)
    large = (scale * x.detach()).requires_grad_()
    loss, scaled_loss = criterion(x, y), criterion(large, scale * y)
    torch.testing.assert_close(loss, scaled_loss)
    loss.backward()
    scaled_loss.backward()
    torch.testing.assert_close(large.grad * scale, x.grad, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [kernels.RBF(), kernels.RationalQuadratic(), kernels.Laplacian(), kernels.Laplacian(norm=1)],
    ids=STATIONARY,
)
def test_below_the_floor_of_the_median_the_loss_sees_the_collapse(kernel):  # claim 8
    criterion = KernelVICRegLoss(kernel, "paper")
    x, y = normal(9, 4), normal(9, 4)
    worst = 2 * (1 - EPS**0.5) ** 2
    at_one = float(criterion.terms(x, y).variance)
    below = float(criterion.terms(1e-12 * x, 1e-12 * y).variance)
    assert at_one < 0.9 * worst < below <= worst * (1 + 1e-9)
    assert float(kernel.resolve(1e-12 * x).gamma) == pytest.approx(1e6**kernel.power)


@pytest.mark.parametrize("name", STATIONARY)
def test_bounded_kernels_can_not_satisfy_a_large_threshold(name):  # claim 9
    for spread in (0.1, 1.0, 100.0):
        values = covariance_operator(spread * normal(17, 4), PAIRS[name][0]()).eigenvalues()
        assert float(values.sum()) <= 1
        assert float(values[-2]) <= 1 / 16
