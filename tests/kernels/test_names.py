"""Kernels and mixtures as people write them, and the adaptive ones."""

import numpy as np
import pytest
import torch

from kvicreg import KernelVICRegLoss, kernels, operators

Z = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(
    ("expression", "names", "weights"),
    [
        ("rbf+linear", ["RBF", "Linear"], [0.5, 0.5]),
        ("0.3*rbf+0.7*linear", ["RBF", "Linear"], [0.3, 0.7]),
        (" 3 * rq + laplacian ", ["RationalQuadratic", "Laplacian"], [0.75, 0.25]),
        ("multi-rbf+linear", ["RBF"] * 5 + ["Linear"], [0.1] * 5 + [0.5]),
    ],
)
def test_mixtures_by_name(expression, names, weights):
    mixture = kernels.get(expression)
    assert isinstance(mixture, kernels.Mixture)
    assert [type(k).__name__ for _, k in mixture.members()] == names
    assert mixture.weights == pytest.approx(weights)


def test_options_go_to_the_members_that_have_them():
    (_, rbf), (_, polynomial) = kernels.make("rbf+polynomial", degree=3, gamma=0.5).members()
    assert (rbf.gamma, polynomial.gamma, polynomial.degree) == (0.5, 0.5, 3)


@pytest.mark.parametrize(
    ("said", "options", "sentence"),
    [
        ("rbf+lienar", {}, r"unknown kernel 'lienar' in 'rbf\+lienar': did you mean 'linear'"),
        ("rbf+", {}, "unknown kernel ''"),
        ("x*rbf", {}, "'x' is no share; write 0.3"),
        ("-1*rbf+linear", {}, "weights must be finite and at least 0, got -1"),
        ("rbf+linear", {"degree": 2}, r"the rbf\+linear kernel has no degree"),
        ("rbf", {"learnable": True}, "no mixture, so it has no shares to learn"),
        ("rbf+linear", {"learnable": True, "per_dimension": True}, "choose one of them"),
    ],
)
def test_mistakes_are_named(said, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        kernels.make(said, **options)


def test_multi_rbf_is_the_mean_of_five_bandwidths():
    squared = torch.cdist(Z, Z).square()
    expected = sum(torch.exp(-0.2 / m * squared) for m in (0.25, 0.5, 1, 2, 4)) / 5
    torch.testing.assert_close(kernels.multi_rbf(gamma=0.2)(Z), expected)
    median = np.median(squared.numpy()[np.triu_indices(30, 1)])
    torch.testing.assert_close(kernels.get("multi-rbf")(Z), kernels.multi_rbf(gamma=1 / median)(Z))


def usual_local_scaling(z, neighbours):
    """exp(-|x - y|^2 / (s(x) s(y))) as it is usually written, which is not positive definite."""
    squared = torch.cdist(z, z).square()
    scale = squared.kthvalue(neighbours + 1, dim=1).values.sqrt()
    return torch.exp(-squared / (scale[:, None] * scale[None]))


def test_self_tuning_is_positive_definite_where_the_usual_local_scaling_is_not():
    generator = torch.Generator().manual_seed(3)
    dense, sparse = torch.randn(40, 2, generator=generator) * 0.05, torch.randn(40, 2, generator=generator) * 3
    z = torch.cat([dense, sparse]).double()
    assert float(torch.linalg.eigvalsh(usual_local_scaling(z, 7)).min()) < -1e-3
    assert float(torch.linalg.eigvalsh(kernels.SelfTuning()(z)).min()) > -1e-12


def test_self_tuning_sees_further_where_points_are_sparse():
    generator = torch.Generator().manual_seed(3)
    dense, sparse = torch.randn(100, 2, generator=generator) * 0.2, torch.randn(100, 2, generator=generator) * 2 + 20
    z = torch.cat([dense, sparse]).double()
    kernel, rbf = kernels.SelfTuning(gamma=1.0).resolve(z), kernels.RBF(gamma=1.0)
    pair = torch.tensor([[0.0, 0.0], [0.6, 0.0]], dtype=torch.float64)
    near, far = float(kernel(pair)[0, 1]), float(kernel(pair + 20)[0, 1])
    assert near < float(rbf(pair)[0, 1]) < far


def test_points_of_one_density_have_one_bandwidth():
    grid = torch.cartesian_prod(torch.arange(12.0), torch.arange(12.0)).double()
    inner = grid[((grid > 2) & (grid < 9)).all(1)]
    fixed = kernels.SelfTuning(gamma=0.5).resolve(grid)
    amplitudes = fixed._amplitudes(inner)
    torch.testing.assert_close(amplitudes, amplitudes[:1].expand_as(amplitudes))
    torch.testing.assert_close(amplitudes.square().sum(1), torch.ones(len(inner), dtype=torch.float64))


def test_per_dimension_is_the_kernel_of_standardised_coordinates():
    units = torch.tensor([1.0, 20.0, 0.5, 3.0], dtype=torch.float64)
    scaled = Z * units
    std = scaled.std(0, correction=0)
    relative = std / std.square().mean().sqrt()
    expected = kernels.RBF()(scaled / relative.clamp_min(0.01))
    torch.testing.assert_close(kernels.PerDimension(kernels.RBF(), floor=0.01)(scaled), expected)


@pytest.mark.parametrize("name", ["self-tuning", "multi-rbf", "rbf"])
@pytest.mark.parametrize("per_dimension", [False, True])
def test_adaptive_kernels_train_exactly_and_with_landmarks(name, per_dimension):
    views = [(Z + 0.1 * k).clone().requires_grad_() for k in range(2)]
    exact, nystrom = (
        KernelVICRegLoss(kernels.make(name, per_dimension=per_dimension), approximation=a)(*views)
        for a in (None, operators.Nystrom(landmarks=60))
    )
    torch.testing.assert_close(exact, nystrom, rtol=1e-6, atol=1e-8)
    gradients = torch.autograd.grad(exact, views)
    assert all(bool(g.isfinite().all()) and float(g.abs().max()) > 0 for g in gradients)


def test_per_dimension_has_fourier_features():
    kernel = kernels.PerDimension(kernels.RBF()).resolve(Z)
    features = operators.RandomFourier(features=8000).features([Z], kernel, operators.shard.Shard.of(Z, gather=False))[
        0
    ]
    assert float((features @ features.mT - kernel(Z)).abs().max()) < 0.06
