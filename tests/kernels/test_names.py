"""Kernels and mixtures as people write them, and the adaptive ones."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from kvicreg import KernelVICRegLoss, kernels, operators
from kvicreg.options import Options, choice

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
    (_, rbf), (_, linear) = kernels.make("rbf+linear", gamma=0.1).members()
    assert (rbf.gamma, linear.gamma) == (0.1, 1.0)
    (_, rbf), (_, linear) = kernels.make(
        "rbf+linear", bandwidth="median", bandwidth_momentum=0.9, bandwidth_multiple=2
    ).members()
    assert (rbf.gamma.momentum, rbf.gamma.multiple, linear.gamma) == (0.9, 2.0, 1.0)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("laplacian", {"distance_norm": 1, "gamma": 2}, kernels.Laplacian(2.0, norm=1)),
        ("rq", {"alpha": 0.5}, kernels.RationalQuadratic(alpha=0.5)),
        ("self-tuning", {"neighbours": 3}, kernels.SelfTuning(neighbours=3)),
        ("polynomial", {"degree": 3, "coef0": 0.5, "gamma": 0.1}, kernels.Polynomial(3, 0.5, 0.1)),
        ("linear", {"per_dimension": True}, kernels.PerDimension(kernels.Linear())),
        ("multi_rbf", {"gamma": 0.1}, kernels.multi_rbf(0.1)),
        ("inverse_multiquadric", {}, kernels.InverseMultiquadric(1.0)),
        (
            "inverse_multiquadric",
            {"per_dimension": True},
            kernels.PerDimension(kernels.InverseMultiquadric(1.0)),
        ),
        ("inverse_multiquadric", {"gamma": 0.3}, kernels.InverseMultiquadric(0.3)),
        ("inverse_multiquadric", {"bandwidth": "mean"}, kernels.InverseMultiquadric("mean")),
        ("inverse_multiquadric", {"bandwidth": "median"}, kernels.InverseMultiquadric("median")),
        ("inverse_multiquadric", {"bandwidth_multiple": 2}, kernels.InverseMultiquadric(kernels.Median(2.0))),
        ("inverse_multiquadric", {"bandwidth_momentum": 0.99}, kernels.InverseMultiquadric("smoothed")),
    ],
)
def test_settings_are_the_arguments_of_the_kernel(name, settings, expected):
    assert repr(kernels.make(name, **settings)) == repr(expected)


@pytest.mark.parametrize("expression", ["rbf+linear", "multi-rbf", "multi-rbf+linear"])
def test_shares_may_be_learnt(expression):
    mixture = kernels.make(expression, learn_mixture=True)
    assert len(mixture.logits) == len(mixture.members()) == {"rbf+linear": 2, "multi-rbf": 5}.get(expression, 6)


@pytest.mark.parametrize("expression", ["rbf", "multi-rbf", "0.3*rbf+0.7*polynomial", "2*laplacian"])
def test_settings_survive_being_written_flat(expression):
    @dataclass(frozen=True, kw_only=True)
    class Holder(Options):
        kernel: kernels.KernelOptions = choice("rbf", kernels.KERNELS, "The kernel.")

    globals().setdefault("kernels", kernels)
    first = Holder.of(kernel=expression, per_dimension=True)
    assert Holder.of(**first.flat()) == first
    assert repr(first.replace(per_dimension=False).kernel.build()) == repr(kernels.get(expression))
    assert pickle.loads(pickle.dumps(first.kernel)) == first.kernel


def test_a_kernel_is_a_formula_and_a_name():
    class Cauchy(kernels.StationaryKernel, name="toy-cauchy".replace("-", "_")):
        def profile(self, exponent):
            return 1 / (1 - exponent)

    try:
        z = Z.clone().requires_grad_()
        ours, expected = kernels.get("toy-cauchy"), kernels.RationalQuadratic()
        torch.testing.assert_close(ours(z), expected(z))
        views = [z, Z + 0.1]
        losses = [KernelVICRegLoss(name)(*views) for name in ("toy_cauchy", "rq")]
        torch.testing.assert_close(losses[0], losses[1])
        torch.testing.assert_close(*(torch.autograd.grad(loss, z)[0] for loss in losses))
        assert kernels.make("toy_cauchy+linear", gamma=0.3).members()[0][1].gamma == 0.3
        assert "toy_cauchy" in kernels.KERNELS.names()
        assert pickle.loads(pickle.dumps(kernels.RBF.Options())) == kernels.RBF.Options()
    finally:
        del kernels.KERNELS.members["toy_cauchy"]


class Narrow(kernels.RBF):
    """Somebody's kernel, in a module of their own."""


def test_a_registered_kernel_has_options_of_its_own_that_can_be_sent_to_another_process():
    try:
        assert kernels.register("toy-narrow", Narrow) is Narrow
        made = kernels.make("toy_narrow", gamma=0.5)
        assert (type(made), made.gamma) == (Narrow, 0.5)
        options = Narrow.Options(gamma=0.5)
        assert pickle.loads(pickle.dumps(options)) == options
        assert (type(options).__name__, repr(options)[:15]) == ("Options", "Narrow.Options(")
        assert type(options).__doc__ == "The settings of the toy-narrow kernel."
        assert type(kernels.make("rbf")) is kernels.RBF
    finally:
        kernels.KERNELS.members.pop("toy_narrow", None)


@pytest.mark.parametrize("wrong", [3, kernels.RBF(), int])
def test_only_classes_of_kernels_are_registered(wrong):
    with pytest.raises(TypeError, match=r"kernel must be a subclass of kernels\.Kernel, got"):
        kernels.register("toy", wrong)


@pytest.mark.parametrize(
    ("expression", "options", "sentence"),
    [
        ("rbf+lienar", {}, r"unknown kernel 'lienar' in 'rbf\+lienar': did you mean 'linear'"),
        ("rbf+", {}, "unknown kernel ''"),
        (None, {}, "kernel must be a name, such as rbf, got None"),
        ("x*rbf", {}, "'x' is no share; write 0.3"),
        ("0.3rbf+linear", {}, r"shares are written 0\.3\*rbf"),
        ("-1*rbf+linear", {}, "shares must be finite and at least 0, got -1"),
        ("inf*rbf+linear", {}, "shares must be finite and at least 0, got inf"),
        ("rbf+linear", {"degree": 2}, r"nothing reads degree with kernel rbf\+linear; it is read by kernel polynomial"),
        ("linear", {"bandwidth_multiple": 2.0}, "nothing reads bandwidth_multiple with kernel linear; it is read by"),
        ("linear", {"gamma": 2.0}, "nothing reads gamma with kernel linear"),
        ("rbf", {"degre": 2}, "there is no setting 'degre'; did you mean 'degree'"),
        ("rbf", {"gamma": 0.0}, "gamma must be positive, got 0"),
        ("rbf", {"gamma": 0.1, "bandwidth_momentum": 0.9}, "with a fixed gamma nothing does"),
        ("rbf", {"gamma": 0.1, "bandwidth_multiple": 2.0}, "with a fixed gamma nothing does"),
        (
            "rbf",
            {"learn_mixture": True},
            r"nothing reads learn_mixture with kernel rbf; .*multi_rbf, kernel NAME\+NAME",
        ),
        ("rbf+linear", {"learn_mixture": True, "per_dimension": True}, "choose one of them"),
        ("multi-rbf", {"learn_mixture": True, "per_dimension": True}, "choose one of them"),
    ],
)
def test_mistakes_are_named(expression, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        kernels.make(expression, **options)


def test_multi_rbf_is_the_mean_of_five_bandwidths():
    squared = torch.cdist(Z, Z).square()
    expected = sum(torch.exp(-0.2 / m * squared) for m in (0.25, 0.5, 1, 2, 4)) / 5
    torch.testing.assert_close(kernels.multi_rbf(gamma=0.2)(Z), expected)
    median = np.median(squared.numpy()[np.triu_indices(30, 1)])
    torch.testing.assert_close(kernels.multi_rbf("median")(Z), kernels.multi_rbf(gamma=1 / median)(Z))
    mean = squared.sum() / (30 * 29)
    torch.testing.assert_close(kernels.get("multi-rbf")(Z), kernels.multi_rbf(gamma=float(1 / mean))(Z))


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


def test_self_tuning_is_its_formula():
    x = Z.numpy()
    squared = ((x[:, None] - x[None]) ** 2).sum(-1)
    local = np.sort(squared, axis=1)[:, 3]
    multiples = np.array([0.25, 0.5, 1, 2, 4])
    octaves = np.log2(local[:, None] / np.sort(local)[14] / multiples)
    shares = np.exp(-(octaves**2) / 2)
    amplitudes = np.sqrt(shares / shares.sum(1, keepdims=True))
    expected = sum(np.outer(a, a) * np.exp(-0.3 / m * squared) for a, m in zip(amplitudes.T, multiples, strict=True))
    np.testing.assert_allclose(kernels.SelfTuning(0.3, neighbours=3)(Z).numpy(), expected, rtol=1e-6)


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


def test_per_dimension_believes_a_tenth_of_the_typical_scale_and_keeps_the_overall_one():
    scaled = Z * torch.tensor([1e-3, 1.0, 1.0, 1.0], dtype=torch.float64)
    assert float(kernels.PerDimension(kernels.RBF()).resolve(scaled).scales[0]) == 0.1
    kernel = kernels.PerDimension(kernels.Linear(), floor=0.2)
    assert kernel.unit_value(4) == 4
    unit = kernel.resolve(scaled).unit(4)
    assert (unit.floor, float(unit.scales[0])) == (0.2, 0.2)


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


def test_a_share_may_be_nothing():
    assert kernels.make("0*rbf+linear").weights == [0.0, 1.0]
    with pytest.raises(ValueError, match="share"):
        kernels.make("-1*rbf+linear")


@pytest.mark.parametrize("neighbours", [0, True, 2.5, "7"])
def test_neighbours_are_counted(neighbours):
    with pytest.raises(ValueError, match="neighbours"):
        kernels.SelfTuning(neighbours=neighbours)
    assert kernels.SelfTuning(neighbours=1).neighbours == 1
