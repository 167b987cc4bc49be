"""The neighbours of Kernel VICReg, each against its formula in numpy, for two views and for three.

1. With the linear kernel FroSSL, I-VNE, the coding rate, CorInfoMax and MMCR are their papers', on whichever side of
   the matrix they are computed.
2. With another kernel they are the same of features whose inner products are the kernel's cosines.
3. SIGReg is Epps and Pulley's statistic of every slice; a Gaussian sample has a small one, and a collapsed one not.
4. The maximum mean discrepancy to a Gaussian is that to very many draws of it; the Stein kernel is its definition by
   derivatives; both vanish on average for Gaussian samples; a collapsed batch is further from a Gaussian than one.
5. VISReg's shape does not change with scale or position, and its quantiles are the normal distribution's.
6. W-MSE compares views whose covariance is the identity, and refuses a batch that is too small for that.
7. All pass gradcheck, do not know the order of the views, and draw other slices only in a training step.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import nn

from kvicreg import kernels, losses, operators

GAMMA = 0.2


def views(count=2, b=12, p=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(b, p, generator=generator, dtype=torch.float64)
    return [base + 0.3 * torch.randn(b, p, generator=generator, dtype=torch.float64) for _ in range(count)]


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


def epps_pulley(x):
    t = np.linspace(-5, 5, 17)
    gap = np.abs(np.exp(1j * np.outer(x, t)).mean(0) - np.exp(-(t**2) / 2)) ** 2
    return len(x) * integrate.trapezoid(gap * np.exp(-(t**2) / 2), t)


@pytest.mark.parametrize("count", [2, 4])
def test_lejepa_is_prediction_and_the_statistic_of_every_slice(count):  # claim 3
    zs, loss = views(count), losses.LeJEPALoss(0.3, slices=7)
    stacked = torch.stack(zs)
    directions = loss.slices.directions(stacked).numpy()
    np.testing.assert_allclose(np.linalg.norm(directions, axis=0), 1, rtol=1e-6)
    arrays = stacked.numpy()
    prediction = ((arrays - arrays.mean(0)) ** 2).mean()
    sigreg = np.mean([epps_pulley(z @ a) for z in arrays for a in directions.T])
    terms = loss.terms(*zs)
    assert float(terms.sigreg) == pytest.approx(sigreg, rel=1e-6)
    assert float(terms.prediction) == pytest.approx(prediction, rel=1e-9)
    assert float(terms.total) == pytest.approx(0.7 * prediction + 0.3 * sigreg, rel=1e-6)


def test_a_gaussian_sample_has_a_small_statistic_and_a_collapsed_one_has_not():  # claim 3
    loss = losses.LeJEPALoss(slices=32)
    gaussian = torch.randn(2, 512, 8, generator=torch.Generator().manual_seed(0))
    assert float(loss.terms(*gaussian).sigreg) < 2
    assert float(loss.terms(*(gaussian * 0.01)).sigreg) > 50


def test_the_mmd_is_that_to_very_many_draws_of_a_gaussian():  # claim 4
    z = views(1, 20, 2)[0]
    draws = np.random.default_rng(0).normal(size=(4000, 2))
    both = np.concatenate([z.numpy(), draws])
    gram = np.exp(-GAMMA * ((both[:, None] - both[None]) ** 2).sum(-1))
    expected = gram[:20, :20].mean() - 2 * gram[:20, 20:].mean() + gram[20:, 20:].mean()
    squared = losses.kerjepa.gaussian_mmd(z.unsqueeze(0), GAMMA)
    assert float(squared) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("exponent", [None, 0.5, 2.0])
def test_the_stein_kernel_is_its_definition_by_derivatives(exponent):  # claim 4
    def kernel(x, y):
        r = (x - y).square().sum()
        return torch.exp(-GAMMA * r) if exponent is None else (1 + GAMMA * r / exponent) ** -exponent

    def stein(x, y):
        first, second = (torch.func.grad(kernel, argnums=i)(x, y) for i in (0, 1))
        mixed = torch.func.jacfwd(torch.func.grad(kernel, argnums=0), argnums=1)(x, y)
        return x @ y * kernel(x, y) - x @ second - y @ first + mixed.trace()

    z = views(1, 6, 3)[0]
    expected = torch.stack([stein(x, y) for i, x in enumerate(z) for j, y in enumerate(z) if i != j]).mean()
    torch.testing.assert_close(losses.kerjepa.gaussian_stein(z.unsqueeze(0), GAMMA, exponent)[0], expected)


def test_the_stein_kernel_of_two_gaussian_samples_is_zero_on_average():  # claim 4
    z = torch.randn(1, 1500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    itself = (z.square().sum(-1) + 2 * 3 * GAMMA).mean()  # u(x, x) = |x|^2 + 2 p gamma
    assert abs(float(losses.kerjepa.gaussian_stein(z, GAMMA))) < 0.01 * float(itself)


def test_a_collapsed_batch_is_further_from_a_gaussian_however_many_coordinates_there_are():  # claim 4
    z = torch.randn(1, 32, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    at_scale = [float(losses.kerjepa.gaussian_stein(scale * z, 1 / 256)) for scale in (0.0, 0.3, 1.0, 2.0)]
    assert min(at_scale) == at_scale[2]


def test_kerjepa_has_the_kernel_that_it_is_told():  # claim 4
    zs = views(3)
    stacked = torch.stack(zs)
    for exponent in (None, 0.5):
        found = losses.KerJEPALoss("stein", gamma=0.3, exponent=exponent).terms(*zs).discrepancy
        torch.testing.assert_close(found, 12 * losses.kerjepa.gaussian_stein(stacked, 0.3, exponent).mean())
    found = losses.KerJEPALoss("mmd", gamma=0.3).terms(*zs).discrepancy
    torch.testing.assert_close(found, 12 * losses.kerjepa.gaussian_mmd(stacked, 0.3).mean())
    with pytest.raises(ValueError, match="exponent is read only with discrepancy stein"):
        losses.KerJEPALoss("mmd", exponent=0.5)


@pytest.mark.parametrize("shape", [(3, 2, 5), (2, 7, 3)], ids=str)
def test_each_view_has_its_own_discrepancy(shape):  # claim 4
    z = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for discrepancy in (losses.kerjepa.gaussian_mmd, losses.kerjepa.gaussian_stein):
        torch.testing.assert_close(discrepancy(z, GAMMA), torch.cat([discrepancy(each[None], GAMMA) for each in z]))


def test_the_mmd_is_in_closed_form():  # claim 4
    z = views(1, 6, 3)[0]
    gram = np.exp(-GAMMA * ((z.numpy()[:, None] - z.numpy()[None]) ** 2).sum(-1))
    lengths = (z.numpy() ** 2).sum(1)
    across = np.exp(-GAMMA / (1 + 2 * GAMMA) * lengths) * (1 + 2 * GAMMA) ** -1.5
    expected = gram.mean() - 2 * across.mean() + (1 + 4 * GAMMA) ** -1.5
    assert float(losses.kerjepa.gaussian_mmd(z[None], GAMMA)) == pytest.approx(expected, rel=1e-9)


def test_kerjepa_weighs_prediction_and_discrepancy():  # claim 4
    zs = views(3)
    for discrepancy in ("mmd", "stein"):
        terms = losses.KerJEPALoss(discrepancy, 0.25).terms(*zs)
        stacked = torch.stack(zs)
        torch.testing.assert_close(terms.prediction, (stacked - stacked.mean(0)).square().mean())
        torch.testing.assert_close(terms.total, 0.75 * terms.prediction + 0.25 * terms.discrepancy)
        each = getattr(losses.kerjepa, f"gaussian_{discrepancy}")(stacked, 1 / (2 * stacked.shape[2]))
        torch.testing.assert_close(terms.discrepancy, stacked.shape[1] * each.mean())


def test_visreg_is_its_three_terms():  # claim 5
    zs, loss = views(2), losses.VISRegLoss(0.5, 2.0, slices=6)
    arrays, a = torch.stack(zs).numpy(), loss.slices.directions(torch.stack(zs)).numpy()
    sd = np.sqrt(arrays.var(1, keepdims=True) + 1e-6)
    quantiles = stats.norm.ppf((np.arange(12) + 0.5) / 12)
    sliced = np.sort((arrays - arrays.mean(1, keepdims=True)) / sd @ a, axis=1)
    prediction, scale = ((arrays - arrays.mean(0)) ** 2).mean(), ((1 - sd) ** 2).mean()
    shape = ((sliced - quantiles[:, None]) ** 2).mean()
    assert [float(term) for term in loss.terms(*zs)] == pytest.approx(
        [prediction + 0.5 * scale + 2 * shape, prediction, scale, shape], rel=1e-7
    )
    moved = loss.terms(*[3 * z + 5 for z in zs])
    assert float(moved.shape) == pytest.approx(float(loss.terms(*zs).shape), rel=1e-4)


@pytest.mark.parametrize("count", [2, 3])
def test_w_mse_compares_whitened_views(count):  # claim 6
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
def test_its_gradient_is_its_own_and_it_does_not_know_the_order_of_the_views(name):  # claim 7
    loss = ALL[name].eval()
    zs = [z.requires_grad_() for z in views(3, 7, 3)]
    assert torch.autograd.gradcheck(lambda *z: loss(*z), zs, atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(loss(*zs), loss(zs[2], zs[0], zs[1]))


@pytest.mark.parametrize("loss", [losses.LeJEPALoss(slices=4), losses.VISRegLoss(slices=4)], ids=["lejepa", "visreg"])
def test_slices_change_only_in_a_training_step_and_are_saved(loss):  # claim 7
    zs: list[torch.Tensor] = views()
    fresh = type(loss)(slices=4)
    assert float(loss.eval()(*zs)) == float(loss(*zs)) == float(loss.train().terms(*zs).total)
    first, second = float(loss(*zs)), float(loss(*zs))
    assert first != second
    fresh.load_state_dict(loss.state_dict())
    assert float(fresh.terms(*zs).total) == second
    assert isinstance(fresh, nn.Module)


@pytest.mark.parametrize(("seed", "start"), [(2, 2_000_006), (2**63 + 1, 1_000_003)])
def test_slices_are_drawn_by_seed_and_step_alone(seed, start):  # claim 7
    slices = losses.gaussian.Slices(4, seed)
    for step in range(3):
        draws = torch.randn(6, 4, generator=torch.Generator().manual_seed(start + step))
        torch.testing.assert_close(slices.directions(torch.zeros(1, 6)), draws / draws.norm(dim=0))
        slices.advance()


def test_slices_are_where_and_as_precise_as_the_embeddings():  # claim 7
    slices = losses.gaussian.Slices(4)
    assert slices.directions(torch.zeros(1, 6, device="meta")).device.type == "meta"
    assert slices.directions(torch.zeros(1, 6, dtype=torch.float64)).dtype == torch.float64
