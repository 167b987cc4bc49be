"""The kernel family: each member is its definition in feature space, and its parent under the linear kernel.

1. Kernel SimCLR is NT-Xent with cosines of feature space; with the linear kernel it is NT-Xent.
2. Kernel BYOL is the squared distance of unit vectors of feature space, of predictions and targets at unit length; with
   the linear kernel it is BYOL's loss; predictions far from their targets feel them.
3. Kernel Barlow Twins, basis "free": with ``A = r C / sqrt(T T')`` from explicit features, r times (invariance +
   redundancy) is ``|A - I|_HS^2`` on r directions; from Gram matrices it is the same.
4. Kernel Barlow Twins is Barlow Twins with the linear kernel: for every weight in the basis "coordinates"; with weight
   1, divided by p, in the basis "free" on standardised embeddings.
5. The squared norm in it is HSIC of the views (biased estimate).
6. Every member takes every kernel and approximation that Kernel VICReg takes, passes gradcheck with them, and with as
   many landmarks as points equals the exact loss.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import pairwise

from kvicreg import kernels, losses, operators

RNG = np.random.default_rng(8)
KERNELS = {
    "linear": (kernels.Linear(), pairwise.linear_kernel),
    "polynomial": (kernels.Polynomial(degree=2, coef0=1.0), lambda x, y: (x @ y.T / x.shape[1] + 1) ** 2),
    "rbf": (kernels.RBF(gamma=0.3), lambda x, y: pairwise.rbf_kernel(x, y, gamma=0.3)),
    "laplacian": (
        kernels.Laplacian(gamma=0.4),
        lambda x, y: np.exp(-0.4 * pairwise.euclidean_distances(x, y)),
    ),
    "rq": (
        kernels.RationalQuadratic(gamma=0.5, alpha=2.0),
        lambda x, y: (1 + 0.25 * pairwise.euclidean_distances(x, y, squared=True)) ** -2.0,
    ),
}
MEMBERS = {
    "simclr": (losses.KernelSimCLRLoss, 2),
    "byol": (losses.KernelBYOLLoss, 4),
    "barlow-twins": (losses.KernelBarlowTwinsLoss, 2),
}


def arrays(count, b=6, p=4):
    return [RNG.normal(size=(b, p)) for _ in range(count)]


def tensors(values):
    return [torch.from_numpy(v) for v in values]


def normalised(gram, x, y):
    return gram(x, y) / np.sqrt(np.outer(np.diag(gram(x, x)), np.diag(gram(y, y))))


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_simclr_is_nt_xent_on_cosines_of_feature_space(name):  # claim 1
    kernel, gram = KERNELS[name]
    x, y = arrays(2)
    z = np.concatenate([x, y])
    s = normalised(gram, z, z) / 0.2
    n, b = len(z), len(x)
    expected = np.mean([-s[i, (i + b) % n] + np.log(np.exp(np.delete(s[i], i)).sum()) for i in range(n)])
    assert float(losses.KernelSimCLRLoss(kernel, 0.2)(*tensors([x, y]))) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_byol_is_the_distance_of_unit_vectors(name):  # claim 2
    kernel, gram = KERNELS[name]
    q1, q2, t1, t2 = arrays(4)
    u1, u2, s1, s2 = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (q1, q2, t1, t2))
    expected = sum(np.mean(2 - 2 * np.diag(normalised(gram, u, s))) for u, s in ((u1, s2), (u2, s1)))
    assert float(losses.KernelBYOLLoss(kernel)(*tensors([q1, q2, t1, t2]))) == pytest.approx(expected, rel=1e-9)


def test_kernel_byol_of_a_row_of_zeros():  # claim 2
    kernel, gram = KERNELS["polynomial"]
    q1, q2, t1, t2 = arrays(4)
    q1[2], t2[4] = 0, 0
    lengths = [np.linalg.norm(v, axis=1, keepdims=True) for v in (q1, q2, t1, t2)]
    u1, u2, s1, s2 = (v / np.where(n > 0, n, 1) for v, n in zip((q1, q2, t1, t2), lengths, strict=True))
    expected = sum(np.mean(2 - 2 * np.diag(normalised(gram, u, s))) for u, s in ((u1, s2), (u2, s1)))
    assert float(losses.KernelBYOLLoss(kernel)(*tensors([q1, q2, t1, t2]))) == pytest.approx(expected, rel=1e-9)


def features_of(gram, x, y):
    """Explicit features of both views with the right inner products, from the eigenvectors of their joint Gram."""
    z = np.concatenate([x, y])
    values, vectors = np.linalg.eigh(gram(z, z))
    features = vectors * np.sqrt(np.maximum(values, 0))
    return features[: len(x)], features[len(x) :]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("shape", [(6, 4), (5, 9)], ids=str)
def test_kernel_barlow_twins_is_its_definition_on_explicit_features(name, shape):  # claim 3
    kernel, gram = KERNELS[name]
    x, y = arrays(2, *shape)
    b, p = shape
    f, g = (v - v.mean(0) for v in features_of(gram, x, y))
    c = f.T @ g / b
    total = np.sqrt((np.square(f).sum() / b + 1e-5) * (np.square(g).sum() / b + 1e-5))
    r = min(b - 1, kernel.rank(p))
    a = r * c / total
    terms = losses.KernelBarlowTwinsLoss(kernel).terms(*tensors([x, y]))
    # |A - I|^2 on r directions: the identity is that of the span, so its squared norm is r
    expected = np.square(a).sum() - 2 * np.trace(a) + r
    assert r * float(terms.invariance + terms.redundancy) == pytest.approx(expected, rel=1e-8)
    assert float(terms.invariance) == pytest.approx((1 - np.trace(a) / r) ** 2, rel=1e-8)


@pytest.mark.parametrize("weight", [0.0, 0.0051, 1.0])
@pytest.mark.parametrize("shape", [(9, 4), (5, 12)], ids=str)
def test_linear_kernel_barlow_twins_in_coordinates_is_barlow_twins(shape, weight):  # claim 4
    views = tensors(arrays(2, *shape))
    ours = losses.KernelBarlowTwinsLoss("linear", basis="coordinates", redundancy_weight=weight)
    torch.testing.assert_close(ours(*views), losses.BarlowTwinsLoss(weight)(*views))


def test_linear_kernel_barlow_twins_is_barlow_twins_on_standardised_embeddings():  # claim 4
    x, y = ((v - v.mean(0)) / v.std(0) for v in arrays(2, 12, 4))
    ours = losses.KernelBarlowTwinsLoss("linear", redundancy_weight=1.0, eps=0.0)(*tensors([x, y]))
    parent = losses.BarlowTwinsLoss(1.0, eps=0.0)(*tensors([x, y]))
    torch.testing.assert_close(4 * ours, parent)


def test_linear_kernel_simclr_and_byol_are_their_parents():  # claims 1 and 2
    q1, q2, t1, t2 = tensors(arrays(4))
    torch.testing.assert_close(losses.KernelSimCLRLoss("linear", 0.3)(q1, q2), losses.NTXentLoss(0.3)(q1, q2))
    torch.testing.assert_close(losses.KernelBYOLLoss("linear")(q1, q2, t1, t2), losses.BYOLLoss()(q1, q2, t1, t2))


@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_the_norm_of_the_cross_covariance_is_hsic(name):  # claim 5
    kernel, gram = KERNELS[name]
    x, y = arrays(2, 8)
    h = np.eye(8) - 1 / 8
    hsic = np.trace(gram(x, x) @ h @ gram(y, y) @ h) / 8**2
    traces = [np.trace(gram(v, v) @ h) / 8 + 1e-5 for v in (x, y)]
    terms = losses.KernelBarlowTwinsLoss(kernel).terms(*tensors([x, y]))
    correlation = 1 - np.sqrt(float(terms.invariance))
    norm = (float(terms.redundancy) + correlation**2) * np.prod(traces) / 7
    assert norm == pytest.approx(hsic, rel=1e-8)


APPROXIMATIONS = {
    "exact": None,
    "nystrom": operators.Nystrom(landmarks=5),
    "random-fourier": operators.RandomFourier(features=8),
}


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("member", MEMBERS)
def test_every_member_takes_every_kernel_and_approximation(member, name, approximation):  # claim 6
    criterion, count = MEMBERS[member]
    kernel = KERNELS[name][0]
    values = tensors(arrays(count, 6, 3))
    loss = criterion(kernel, approximation=APPROXIMATIONS[approximation])
    if approximation == "random-fourier" and name in ("linear", "polynomial"):
        with pytest.raises(ValueError, match="no spectral density"):
            loss(*values)
        return
    learnt, still = values[:2], values[2:]
    if approximation == "nystrom":  # landmarks are points of the batch that a finite difference would move
        inputs = [v.clone().requires_grad_() for v in learnt]
        loss(*inputs, *still).backward()
        assert all(v.grad.isfinite().all() and v.grad.any() for v in inputs)
        return
    assert torch.autograd.gradcheck(lambda *z: loss(*z, *still), [v.clone().requires_grad_() for v in learnt])


@pytest.mark.parametrize("name", ["linear", "polynomial", "rbf", "laplacian", "rq"])
@pytest.mark.parametrize("member", MEMBERS)
def test_as_many_landmarks_as_points_are_exact(member, name):  # claim 6
    criterion, count = MEMBERS[member]
    values = tensors(arrays(count, 6, 3))
    exact = criterion(KERNELS[name][0])(*values)
    approximate = criterion(KERNELS[name][0], approximation=operators.Nystrom(landmarks=100))(*values)
    torch.testing.assert_close(approximate, exact, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("member", MEMBERS)
def test_mixtures_and_the_median_work_in_every_member(member):  # claim 6
    criterion, count = MEMBERS[member]
    mixture = kernels.Mixture([kernels.RBF(), kernels.Linear()], learnable=True)
    values = [v.float().requires_grad_() for v in tensors(arrays(count))]
    criterion(mixture)(*values).backward()
    assert mixture.logits.grad.isfinite().all()
    rescaled = criterion("rbf")(*[10 * v for v in values])
    torch.testing.assert_close(rescaled, criterion("rbf")(*values), rtol=1e-4, atol=1e-5)


def test_coordinates_of_an_exact_nonlinear_kernel_are_refused_by_name():
    with pytest.raises(ValueError, match="Nystrom"):
        losses.KernelBarlowTwinsLoss("rbf", basis="coordinates")
    views = torch.randn(2, 16, 4)
    losses.KernelBarlowTwinsLoss("rbf", basis="coordinates", approximation=operators.Nystrom(8))(*views)


def test_predictions_far_from_their_targets_still_feel_them():  # claim 2
    q, t = 0.01 * torch.randn(2, 2, 32, 4)
    axes = torch.eye(4)  # the distances among either are a hundredth of those between them
    q, t = (q + axes[0]).requires_grad_(), t + axes[1]
    loss = losses.KernelBYOLLoss("rbf")(*q, *t)
    assert 0.5 < float(loss.detach()) < 3.5
    assert torch.autograd.grad(loss, q)[0].abs().max() > 1e-3
