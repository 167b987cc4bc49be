"""Random Fourier features approach the kernel, and are drawn by seed and step alone."""

import copy

import numpy as np
import pytest
import torch
from approximated import KERNELS, STATIONARY, features, gram, views

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.operators import RandomFourier


@pytest.mark.parametrize("name", STATIONARY)
@pytest.mark.parametrize("form", ["paired", "cosine"])
def test_inner_products_approach_the_kernel(name, form):
    z, count = views(1), 20_000
    phi = features(RandomFourier(count, form), z, KERNELS[name]())[0].numpy()
    # an average of D bounded cosines: the error is of the order of 1 / sqrt(D)
    np.testing.assert_allclose(phi @ phi.T, gram(name, z[0]), atol=6 / np.sqrt(count))


@pytest.mark.parametrize("name", ["rbf", "laplacian", "inverse-multiquadric", "rq"])
def test_orthogonal_frequencies_are_unbiased_too(name):
    z, count = views(1, p=5), 20_000
    phi = features(RandomFourier(count, orthogonal=True), z, KERNELS[name]())[0].numpy()
    np.testing.assert_allclose(phi @ phi.T, gram(name, z[0]), atol=6 / np.sqrt(count))


@pytest.mark.parametrize("p", [1, 2, 4])
def test_orthogonal_frequencies_of_a_product_are_unbiased(p):
    z, count = views(1, p=p), 40_000
    kernel = kernels.RBF(0.3) * kernels.RBF(0.2)
    phi = features(RandomFourier(count, orthogonal=True), z, kernel)[0].numpy()
    np.testing.assert_allclose(phi @ phi.T, kernel(z[0]).numpy(), atol=6 / np.sqrt(count))


def test_orthogonal_frequencies_point_in_every_direction():
    from kvicreg.operators.random_fourier import _orthogonal

    generator = torch.Generator().manual_seed(0)
    rows = _orthogonal(torch.ones(3000, 3), generator).reshape(-1, 3, 3)
    torch.testing.assert_close(rows @ rows.mT, 3 * torch.eye(3).expand_as(rows), atol=1e-5, rtol=0)
    # every entry of a uniformly drawn orthogonal matrix has mean 0 and variance 1 / p
    assert float(rows.mean(0).abs().max()) < 5 / 1000**0.5
    assert float((rows.var(0) - 1).abs().max()) < 0.2


def test_orthogonal_frequencies_have_less_error():
    z = 0.5 * views(1, p=16)
    kernel = kernels.RBF(1 / 16)
    exact = kernel(z[0]).numpy()
    errors = {
        orthogonal: np.mean(
            [
                np.square((phi @ phi.mT)[0].numpy() - exact).mean()
                for phi in (features(RandomFourier(32, orthogonal=orthogonal, seed=s), z, kernel) for s in range(20))
            ]
        )
        for orthogonal in (True, False)
    }
    assert errors[True] < 0.8 * errors[False]


@pytest.mark.parametrize("name", STATIONARY)
def test_paired_form_is_exact_on_the_diagonal(name):
    z = views(1)
    phi = features(RandomFourier(64), z, KERNELS[name]())
    torch.testing.assert_close(phi.square().sum(-1), KERNELS[name]().diagonal(z))


@pytest.mark.parametrize("name", ["rbf", "rq"])
def test_loss_approaches_the_exact_one(name):
    z = views(b=12)
    exact = KernelVICRegLoss(KERNELS[name](), "paper").terms(*z)
    ours = KernelVICRegLoss(KERNELS[name](), "paper", approximation=RandomFourier(16384)).terms(*z)
    for term, reference in zip(ours, exact, strict=True):
        torch.testing.assert_close(term, reference, rtol=0.05, atol=5e-3)


@pytest.mark.parametrize("form", ["paired", "cosine"])
@pytest.mark.parametrize("name", STATIONARY)
def test_gradient_is_that_of_the_features(name, form):
    x, y = views(b=5)
    criterion = KernelVICRegLoss(KERNELS[name](), approximation=RandomFourier(6, form))
    assert torch.autograd.gradcheck(criterion, (x.requires_grad_(), y.requires_grad_()))


def test_views_share_one_map():
    z = views(1)[0]
    for spectrum in ("per-view", "shared"):
        criterion = KernelVICRegLoss("rbf", approximation=RandomFourier(32), spectrum=spectrum)
        assert float(criterion.terms(z, z).invariance) == pytest.approx(0, abs=1e-12)


def test_frequencies_follow_the_bandwidth():
    z = views()
    criterion = KernelVICRegLoss("rbf", approximation=RandomFourier(64))
    torch.testing.assert_close(criterion(*z), criterion(*(1000 * z)), rtol=1e-6, atol=1e-6)


def test_frequencies_stay_unless_they_are_redrawn():
    z = views()
    fixed = KernelVICRegLoss("rbf", approximation=RandomFourier(32))
    assert float(fixed(*z)) == float(fixed(*z))
    redrawn = KernelVICRegLoss("rbf", approximation=RandomFourier(32, redraw=True))
    assert float(redrawn(*z)) != float(redrawn(*z))
    redrawn.eval()
    assert float(redrawn(*z)) == float(redrawn(*z))


def test_looking_at_the_terms_draws_nothing_anew():
    z = views()
    redrawn = KernelVICRegLoss("rbf", approximation=RandomFourier(32, redraw=True))
    first = float(redrawn(*z))
    assert [float(redrawn.terms(*z).total) for _ in range(3)] == [first] * 3
    assert float(redrawn(*z)) != first
    groups = torch.arange(20) % 2
    redrawn(*z, groups=groups)
    assert redrawn.approximation._step == 3  # once per step, however many groups there are


def test_redrawn_frequencies_continue_from_the_state():
    z = views()
    first = KernelVICRegLoss("rbf", approximation=RandomFourier(32, redraw=True))
    first(*z), first(*z)
    second = KernelVICRegLoss("rbf", approximation=RandomFourier(32, redraw=True))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert float(first(*z)) == float(second(*z))


@pytest.mark.parametrize("name", ["linear", "polynomial"])
def test_kernels_without_a_spectral_density_say_what_to_use(name):
    with pytest.raises(ValueError, match=r"has no spectral density.*operators\.Nystrom"):
        KernelVICRegLoss(name, approximation=RandomFourier(32))(*views())


def test_orthogonal_frequencies_need_a_euclidean_kernel():
    with pytest.raises(ValueError, match="orthogonal frequencies need a kernel of the Euclidean distance"):
        KernelVICRegLoss(kernels.Laplacian(norm=1), approximation=RandomFourier(32, orthogonal=True))(*views())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": 0}, "features must be at least 2"),
        ({"features": 5}, "even in the paired form, got 5"),
        ({"form": "sine"}, 'form must be "paired" or "cosine"'),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        RandomFourier(**settings)


@pytest.mark.parametrize("form", ["paired", "cosine"])
def test_frequencies_are_those_of_seed_step_and_member(form):
    z, approximation = views(1, p=3), RandomFourier(8, form, redraw=True, seed=5)
    for _ in range(3):
        approximation.advance()
    kernel = kernels.RBF(0.5) + 2.0 * kernels.RBF(0.5)
    parts = []
    for member, weight in enumerate([1.0, 2.0]):
        generator = torch.Generator().manual_seed((5 * 1_000_003 + 3) * 1_000_003 + member)
        noise = torch.randn(2 if form == "paired" else 4, 3, generator=generator).double()
        phase = (torch.rand(len(noise), generator=generator) * 2 * np.pi).double()
        angles = z @ noise.mT  # at gamma 1 / 2 the frequencies are standard normal
        circle = torch.cat([angles.cos(), angles.sin()], -1) if form == "paired" else (angles + phase).cos()
        parts.append(circle * (weight * 2 / 4) ** 0.5)
    torch.testing.assert_close(features(approximation, z, kernel), torch.cat(parts, -1))


def test_draws_are_remembered_but_not_for_ever():
    z, approximation = views(1), RandomFourier(8, redraw=True)
    sizes = []
    for _ in range(40):
        approximation.advance()
        features(approximation, z, kernels.RBF(0.5))
        (first,) = [id(noise) for key, (noise, _) in approximation._drawn.items() if key[0] == approximation._step]
        features(approximation, z, kernels.RBF(0.7))
        assert first in [id(noise) for noise, _ in approximation._drawn.values()]
        sizes.append(len(approximation._drawn))
    assert max(sizes) == 16


def test_a_sum_needs_features_for_each_of_its_members():
    kernel = kernels.RBF(0.5) + kernels.RBF(0.1) + kernels.RBF(0.2)
    assert features(RandomFourier(10), views(1), kernel).shape[-1] == 6
    assert features(RandomFourier(10, "cosine"), views(1), kernel).shape[-1] == 9
    with pytest.raises(ValueError, match="4 features are too few for a sum of 3 kernels"):
        features(RandomFourier(4), views(1), kernel)


def test_kernels_in_turn_have_each_its_own_frequencies():
    z, shared = views(1), RandomFourier(8)
    product = kernels.RBF(0.5) * kernels.RationalQuadratic(0.5)
    for kernel in (kernels.RBF(0.5), kernels.Laplacian(0.5), kernels.Laplacian(0.5, norm=1), product):
        torch.testing.assert_close(features(shared, z, kernel), features(RandomFourier(8), z, kernel))


def test_points_of_another_width_have_their_own_frequencies():
    shared, kernel = RandomFourier(8), kernels.RBF(0.5)
    for width in (4, 3, 4):
        z = torch.randn(1, 6, width, dtype=torch.float64)
        torch.testing.assert_close(features(shared, z, kernel), features(RandomFourier(8), z, kernel))
