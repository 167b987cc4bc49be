"""The neighbours of Kernel VICReg, each against its formula in numpy, for two views and for three.

1. With the linear kernel FroSSL, I-VNE, the coding rate, CorInfoMax and MMCR are their papers', on whichever side of
   the matrix they are computed.
2. With another kernel they are the same of features whose inner products are the kernel's cosines.
3. W-MSE compares views whose covariance is the identity, and refuses a batch that is too small for that.
4. All, and those that ask for a Gaussian (test_gaussian_targets.py), pass gradcheck and do not know the order of the
   views.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from noisy_views import views

from kvicreg import kernels, losses, operators

GAMMA = 0.2


def unit(z):
    return z / np.linalg.norm(z, axis=-1, keepdims=True)


def features(zs, kernel):
    """Explicit features at unit length of all views, by the eigenvectors of the cosines of all points."""
    points = np.concatenate([z.numpy() for z in zs])
    gram = kernel(points)
    scale = 1 / np.sqrt(np.diag(gram))
    values, vectors = np.linalg.eigh(gram * np.outer(scale, scale))
    return np.split(vectors * np.sqrt(values.clip(0)), len(zs))


def rbf(x):
    return np.exp(-GAMMA * ((x[:, None] - x[None]) ** 2).sum(-1))


def polynomial(x):
    return (x @ x.T / x.shape[1] + 1) ** 2


def pair_mean(us, value):
    return np.mean([value(x, y) for x, y in combinations(us, 2)])


def cosine(us):
    return pair_mean(us, lambda x, y: np.mean((x * y).sum(1)))


def spectra(us, centred=False):
    us = [u - u.mean(0) for u in us] if centred else us
    return [np.linalg.eigvalsh(u.T @ u / len(u)).clip(0) for u in us]


def frossl(us, d):
    mean = np.mean(us, axis=0)
    invariance = np.mean([((u - mean) ** 2).sum(1).mean() for u in us])
    return np.mean([np.log(np.sum((u.T @ u / len(u)) ** 2)) for u in us]) + invariance


def vne(us, d):
    entropies = [-sum(v * np.log(v) for v in values if v > 1e-14) for values in spectra(us)]
    return -cosine(us) - np.mean(entropies)


def coding_rate(us, d):
    mean = np.mean(us, axis=0)
    similar = np.mean([((u * mean).sum(1) / np.linalg.norm(mean, axis=1)).mean() for u in us])
    rates = [np.linalg.slogdet(np.eye(u.shape[1]) + d / (0.2 * len(u)) * u.T @ u)[1] / 2 for u in us]
    return -np.mean(rates) - 200 * similar


def corinfomax(us, d, eps=1e-3):
    mse = pair_mean(us, lambda x, y: ((x - y) ** 2).sum(1).mean() / d)
    b = len(us[0])
    dets = [np.log(np.sort(v)[::-1][: min(d, b - 1)] + eps).sum() + max(0, d - b + 1) * np.log(eps)
            for v in spectra(us, centred=True)]  # fmt: skip
    return 500 * mse - 2 * np.mean(dets) / d


def mmcr(us, d):
    return -np.linalg.svd(np.mean(us, axis=0), compute_uv=False).sum()


MEMBERS = {
    "frossl": (losses.FroSSLLoss, {}, frossl),
    "i-vne": (losses.VNELoss, {}, vne),
    "coding-rate": (losses.CodingRateLoss, {}, coding_rate),
    "corinfomax": (losses.CorInfoMaxLoss, {"eps": 1e-3}, corinfomax),
    "mmcr": (losses.MMCRLoss, {}, mmcr),
}


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("shape", [(12, 5), (5, 12)], ids=str)
@pytest.mark.parametrize("count", [2, 3])
def test_with_the_linear_kernel_it_is_its_papers(member, shape, count):  # claim 1
    loss, settings, reference = MEMBERS[member]
    zs = views(count, *shape)
    expected = reference([unit(z.numpy()) for z in zs], shape[1])
    assert float(loss(**settings)(*zs)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize(("kernel", "gram"), [("rbf", rbf), ("polynomial", polynomial)])
def test_with_another_kernel_it_is_the_same_of_its_features(member, kernel, gram):  # claim 2
    loss, settings, reference = MEMBERS[member]
    zs = views(3, 7, 4)
    made = kernels.RBF(gamma=GAMMA) if kernel == "rbf" else kernels.Polynomial()
    d = 7 if kernel == "rbf" else int(made.rank(4))
    assert float(loss(made, **settings)(*zs)) == pytest.approx(reference(features(zs, gram), d), rel=1e-7)


def test_frossl_is_its_two_terms():  # claim 1
    zs = views(3)
    terms = losses.FroSSLLoss(invariance_weight=3.0).terms(*zs)
    us = np.stack([unit(z.numpy()) for z in zs])
    assert float(terms.invariance) == pytest.approx(((us - us.mean(0)) ** 2).sum(-1).mean())
    torch.testing.assert_close(terms[0], terms[2] + 3 * terms.invariance)
    norms = [np.square(u.T @ u / len(u)).sum() for u in us]
    assert float(terms[2]) == pytest.approx(np.log(norms).mean())


def test_every_term_is_told_without_its_weight():  # claim 1
    zs = views(3)
    us = [unit(z.numpy()) for z in zs]
    vne_terms = losses.VNELoss(entropy_weight=3.0).terms(*zs)
    entropy = np.mean([-sum(v * np.log(v) for v in values) for values in spectra(us)])
    assert [float(term) for term in vne_terms] == pytest.approx([-cosine(us) - 3 * entropy, cosine(us), entropy])
    rates = losses.CodingRateLoss(similarity_weight=7.0).terms(*zs)
    mean = np.mean(us, axis=0)
    similar = np.mean([((u * mean).sum(1) / np.linalg.norm(mean, axis=1)).mean() for u in us])
    rate = np.mean([np.linalg.slogdet(np.eye(5) + 5 / (0.2 * 12) * u.T @ u)[1] / 2 for u in us])
    assert [float(term) for term in rates] == pytest.approx([-rate - 7 * similar, similar, rate])
    information = losses.CorInfoMaxLoss(attraction=9.0).terms(*zs)
    torch.testing.assert_close(information[0], 9 * information[1] - information[2])
    mse = pair_mean(us, lambda x, y: ((x - y) ** 2).sum(1).mean() / 5)
    assert float(information[1]) == pytest.approx(mse)
    norm = losses.MMCRLoss().terms(*zs)
    assert float(norm.nuclear_norm) == pytest.approx(-mmcr(us, 5)) == -float(norm.total)


def test_frossl_of_an_approximation_is_of_shares_of_its_trace():  # claim 2
    zs, kernel, landmarks = views(2, 8, 3), kernels.RBF(gamma=GAMMA), operators.Nystrom(landmarks=3)
    values = operators.build.unit_operators(zs, kernel, landmarks).operator.eigenvalues()
    assert float(values.sum(-1).max()) < 0.95  # three landmarks do not hold all of it
    expected = (values.square().sum(-1) / values.sum(-1).square()).log().mean()
    torch.testing.assert_close(losses.FroSSLLoss(kernel, landmarks).terms(*zs)[2], expected)


@pytest.mark.parametrize("copies", [64, 256])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_of_equal_points_mmcr_has_one_singular_value(kernel, copies):  # claim 1
    point = torch.randn(1, 16, generator=torch.Generator().manual_seed(0)).repeat(copies, 1)
    assert float(losses.MMCRLoss(kernel)(point, point)) == pytest.approx(-(copies**0.5), rel=1e-6)


@pytest.mark.parametrize("member", MEMBERS)
def test_nystrom_with_few_points_is_an_approximation(member):  # claim 2
    loss, settings, _ = MEMBERS[member]
    zs, kernel = views(2, 8, 3), kernels.RBF(gamma=GAMMA)
    approximate = loss(kernel, operators.Nystrom(landmarks=2), **settings)(*zs)
    assert abs(float(approximate - loss(kernel, **settings)(*zs))) > 1e-3


@pytest.mark.parametrize("member", MEMBERS)
def test_nystrom_with_every_point_is_exact(member):  # claim 2
    loss, settings, _ = MEMBERS[member]
    zs, kernel = views(2, 8, 3), kernels.RBF(gamma=GAMMA)
    approximate = loss(kernel, operators.Nystrom(landmarks=16), **settings)(*zs)
    torch.testing.assert_close(approximate, loss(kernel, **settings)(*zs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [2, 3])
def test_w_mse_compares_whitened_views(count):  # claim 3
    zs = views(count, 20, 4)
    white = losses.w_mse.whitened(torch.stack(zs), 1e-12)
    for each in white:
        torch.testing.assert_close(torch.cov(each.T), torch.eye(4, dtype=torch.float64))
    us = [unit(z) for z in losses.w_mse.whitened(torch.stack(zs), 1e-3).numpy()]
    expected = pair_mean(us, lambda x, y: ((x - y) ** 2).sum(1).mean())
    assert float(losses.WMSELoss()(*zs)) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="--projector-outputs 64"):
        losses.WMSELoss()(*views(2, 8, 8))


ALL = {name: loss(**settings) for name, (loss, settings, _) in MEMBERS.items()} | {
    "frossl, rbf": losses.FroSSLLoss(kernels.RBF(gamma=GAMMA)),
    "i-vne, laplacian": losses.VNELoss(kernels.Laplacian(gamma=GAMMA)),
    "mmcr, polynomial": losses.MMCRLoss("polynomial"),
    "lejepa": losses.LeJEPALoss(slices=5),
    "visreg": losses.VISRegLoss(slices=5),
    "kerjepa-mmd": losses.KerJEPALoss("mmd"),
    "kerjepa-stein": losses.KerJEPALoss("stein"),
    "kerjepa-imq": losses.KerJEPALoss("stein", exponent=0.5),
    "w-mse": losses.WMSELoss(),
}


@pytest.mark.parametrize("name", ALL)
def test_its_gradient_is_its_own_and_it_does_not_know_the_order_of_the_views(name):  # claim 4
    loss = ALL[name].eval()
    zs = [z.requires_grad_() for z in views(3, 7, 3)]
    assert torch.autograd.gradcheck(lambda *z: loss(*z), zs, atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(loss(*zs), loss(zs[2], zs[0], zs[1]))
