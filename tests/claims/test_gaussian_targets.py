"""Losses that ask for Gaussian embeddings, each against its formula in numpy.

1. SIGReg is Epps and Pulley's statistic of every slice; a Gaussian sample has a small one, and a collapsed one not.
2. The maximum mean discrepancy to a Gaussian is that to very many draws of it; the Stein kernel is its definition by
   derivatives; both vanish on average for Gaussian samples; a collapsed batch is further from a Gaussian than one.
3. VISReg's shape does not change with scale or position, and its quantiles are the normal distribution's.
4. Other slices are drawn only in a training step, by seed and step alone.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from noisy_views import views
from scipy import integrate, stats
from torch import nn

from kvicreg import losses

GAMMA = 0.2


def epps_pulley(x):
    t = np.linspace(-5, 5, 17)
    gap = np.abs(np.exp(1j * np.outer(x, t)).mean(0) - np.exp(-(t**2) / 2)) ** 2
    return len(x) * integrate.trapezoid(gap * np.exp(-(t**2) / 2), t)


@pytest.mark.parametrize("count", [2, 4])
def test_lejepa_is_prediction_and_the_statistic_of_every_slice(count):  # claim 1
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


def test_a_gaussian_sample_has_a_small_statistic_and_a_collapsed_one_has_not():  # claim 1
    loss = losses.LeJEPALoss(slices=32)
    gaussian = torch.randn(2, 512, 8, generator=torch.Generator().manual_seed(0))
    assert float(loss.terms(*gaussian).sigreg) < 2
    assert float(loss.terms(*(gaussian * 0.01)).sigreg) > 50


def test_the_mmd_is_that_to_very_many_draws_of_a_gaussian():  # claim 2
    z = views(1, 20, 2)[0]
    draws = np.random.default_rng(0).normal(size=(4000, 2))
    both = np.concatenate([z.numpy(), draws])
    gram = np.exp(-GAMMA * ((both[:, None] - both[None]) ** 2).sum(-1))
    expected = gram[:20, :20].mean() - 2 * gram[:20, 20:].mean() + gram[20:, 20:].mean()
    squared = losses.kerjepa.gaussian_mmd(z.unsqueeze(0), GAMMA)
    assert float(squared) == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("exponent", [None, 0.5, 2.0])
def test_the_stein_kernel_is_its_definition_by_derivatives(exponent):  # claim 2
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


def test_the_stein_kernel_of_two_gaussian_samples_is_zero_on_average():  # claim 2
    z = torch.randn(1, 1500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    itself = (z.square().sum(-1) + 2 * 3 * GAMMA).mean()  # u(x, x) = |x|^2 + 2 p gamma
    assert abs(float(losses.kerjepa.gaussian_stein(z, GAMMA))) < 0.01 * float(itself)


def test_a_collapsed_batch_is_further_from_a_gaussian_however_many_coordinates_there_are():  # claim 2
    z = torch.randn(1, 32, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    at_scale = [float(losses.kerjepa.gaussian_stein(scale * z, 1 / 256)) for scale in (0.0, 0.3, 1.0, 2.0)]
    assert min(at_scale) == at_scale[2]


def test_kerjepa_has_the_kernel_that_it_is_told():  # claim 2
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
def test_each_view_has_its_own_discrepancy(shape):  # claim 2
    z = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for discrepancy in (losses.kerjepa.gaussian_mmd, losses.kerjepa.gaussian_stein):
        torch.testing.assert_close(discrepancy(z, GAMMA), torch.cat([discrepancy(each[None], GAMMA) for each in z]))


def test_the_mmd_is_in_closed_form():  # claim 2
    z = views(1, 6, 3)[0]
    gram = np.exp(-GAMMA * ((z.numpy()[:, None] - z.numpy()[None]) ** 2).sum(-1))
    lengths = (z.numpy() ** 2).sum(1)
    across = np.exp(-GAMMA / (1 + 2 * GAMMA) * lengths) * (1 + 2 * GAMMA) ** -1.5
    expected = gram.mean() - 2 * across.mean() + (1 + 4 * GAMMA) ** -1.5
    assert float(losses.kerjepa.gaussian_mmd(z[None], GAMMA)) == pytest.approx(expected, rel=1e-9)


def test_kerjepa_weighs_prediction_and_discrepancy():  # claim 2
    zs = views(3)
    for discrepancy in ("mmd", "stein"):
        terms = losses.KerJEPALoss(discrepancy, 0.25).terms(*zs)
        stacked = torch.stack(zs)
        torch.testing.assert_close(terms.prediction, (stacked - stacked.mean(0)).square().mean())
        torch.testing.assert_close(terms.total, 0.75 * terms.prediction + 0.25 * terms.discrepancy)
        each = getattr(losses.kerjepa, f"gaussian_{discrepancy}")(stacked, 1 / (2 * stacked.shape[2]))
        torch.testing.assert_close(terms.discrepancy, stacked.shape[1] * each.mean())


def test_visreg_is_its_three_terms():  # claim 3
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


@pytest.mark.parametrize("loss", [losses.LeJEPALoss(slices=4), losses.VISRegLoss(slices=4)], ids=["lejepa", "visreg"])
def test_slices_change_only_in_a_training_step_and_are_saved(loss):  # claim 4
    zs: list[torch.Tensor] = views()
    fresh = type(loss)(slices=4)
    assert float(loss.eval()(*zs)) == float(loss(*zs)) == float(loss.train().terms(*zs).total)
    first, second = float(loss(*zs)), float(loss(*zs))
    assert first != second
    fresh.load_state_dict(loss.state_dict())
    assert float(fresh.terms(*zs).total) == second
    assert isinstance(fresh, nn.Module)


@pytest.mark.parametrize(("seed", "start"), [(2, 2_000_006), (2**63 + 1, 1_000_003)])
def test_slices_are_drawn_by_seed_and_step_alone(seed, start):  # claim 4
    slices = losses.gaussian.Slices(4, seed)
    for step in range(3):
        draws = torch.randn(6, 4, generator=torch.Generator().manual_seed(start + step))
        torch.testing.assert_close(slices.directions(torch.zeros(1, 6)), draws / draws.norm(dim=0))
        slices.advance()


def test_slices_are_where_and_as_precise_as_the_embeddings():  # claim 4
    slices = losses.gaussian.Slices(4)
    assert slices.directions(torch.zeros(1, 6, device="meta")).device.type == "meta"
    assert slices.directions(torch.zeros(1, 6, dtype=torch.float64)).dtype == torch.float64
