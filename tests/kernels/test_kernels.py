"""What each kernel refuses, its names, and the algebra of kernels."""

import math

import pytest
import torch

from kvicreg import kernels
from kvicreg.kernels.cosine import Cosine

Z = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


NAMED = {
    "linear": kernels.Linear,
    "polynomial": kernels.Polynomial,
    "rbf": kernels.RBF,
    "laplacian": kernels.Laplacian,
    "rational_quadratic": kernels.RationalQuadratic,
    "rq": kernels.RationalQuadratic,
    "multi_rbf": kernels.multi_rbf,
    "self_tuning": kernels.SelfTuning,
}


@pytest.mark.parametrize("name", NAMED)
def test_get_makes_the_kernel_of_that_name(name):
    assert repr(kernels.get(name)) == repr(NAMED[name]())
    assert repr(kernels.get(name.upper().replace("_", "-"))) == repr(NAMED[name]())


def test_every_name_is_listed_once_in_order():
    names = kernels.KERNELS.names()
    assert set(NAMED) <= set(names)
    assert names == sorted(set(names))


def test_get_returns_a_kernel_as_it_is():
    kernel = kernels.RBF(gamma=2.0)
    assert kernels.get(kernel) is kernel


@pytest.mark.parametrize(("said", "meant"), [("laplacain", "laplacian"), ("rfb", "rbf"), ("poly-nomial", "polynomial")])
def test_get_asks_did_you_mean(said, meant):
    with pytest.raises(ValueError, match=f"unknown kernel '{said}': did you mean '{meant}'"):
        kernels.get(said)


def test_get_lists_the_names_when_nothing_is_near():
    with pytest.raises(
        ValueError, match="unknown kernel 'xyz': the kernels are .*laplacian, linear, multi_rbf, polynomial"
    ):
        kernels.get("xyz")


@pytest.mark.parametrize("wrong", [None, 3, ["rbf"], kernels.RBF])
def test_get_refuses_what_is_no_kernel(wrong):
    with pytest.raises(TypeError, match=r"kernel must be a name or a kernels\.Kernel"):
        kernels.get(wrong)


@pytest.mark.parametrize("kernel", [kernels.RBF, kernels.Laplacian, kernels.RationalQuadratic, kernels.Linear])
@pytest.mark.parametrize("gamma", [0, -1.0, math.nan, math.inf])
def test_gamma_must_be_positive(kernel, gamma):
    with pytest.raises(ValueError, match="gamma must be positive and finite, got"):
        kernel(gamma=gamma)


@pytest.mark.parametrize("kernel", [kernels.RBF, kernels.Laplacian, kernels.RationalQuadratic])
def test_gamma_must_be_a_number_or_a_rule(kernel):
    with pytest.raises(ValueError, match='"median", "mean", "smoothed"'):
        kernel(gamma="mode")


@pytest.mark.parametrize("kernel", [kernels.RBF, kernels.Laplacian, kernels.RationalQuadratic])
@pytest.mark.parametrize("gamma", [None, [1.0], {}])
def test_gamma_of_a_wrong_type_is_named(kernel, gamma):
    with pytest.raises((TypeError, ValueError), match="gamma must be"):
        kernel(gamma=gamma)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kernels.Polynomial(degree=0), "degree must be a positive integer, got 0"),
        (lambda: kernels.Polynomial(degree=2.0), "degree must be a positive integer, got 2.0"),
        (lambda: kernels.Polynomial(degree=True), "degree must be a positive integer, got True"),
        (lambda: kernels.Polynomial(coef0=-1), "coef0 must be finite and at least 0, got -1"),
        (lambda: kernels.Polynomial(gamma=0), "gamma must be None or positive and finite, got 0"),
        (lambda: kernels.Laplacian(norm=3), "norm must be 1 or 2, got 3"),
        (lambda: kernels.RationalQuadratic(alpha=0), "alpha must be positive and finite, got 0"),
        (lambda: kernels.Median(multiple=0), "multiple must be positive and finite, got 0"),
        (lambda: kernels.Median(momentum=1), "momentum must be at least 0 and below 1, got 1"),
        (lambda: kernels.Median(floor=0), "floor must be positive and finite, got 0"),
        (lambda: kernels.PerDimension(kernels.RBF(), floor=0), "floor must be positive and finite, got 0"),
        (lambda: kernels.PerDimension(kernels.RBF(), floor=math.inf), "floor must be positive and finite, got inf"),
        (lambda: kernels.Mixture([kernels.RBF()], weights=[1, 2]), r"one entry per kernel \(1\), got 2"),
        (lambda: kernels.Mixture([kernels.RBF()], weights=[-1]), "weights must be finite and at least 0, got -1"),
        (lambda: kernels.Mixture([kernels.RBF()], weights=[0]), "weights must not all be 0"),
        (
            lambda: kernels.Mixture([kernels.RBF(), kernels.Linear()], weights=[0, 1], learnable=True),
            "can't start with a weight of 0",
        ),
        (lambda: -1.0 * kernels.RBF(), "weights must be finite and at least 0, got -1"),
    ],
)
def test_wrong_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("make", [kernels.Mixture, kernels.Product, kernels.Sum])
@pytest.mark.parametrize("members", [[], ["rbf"], [kernels.RBF]])
def test_composites_hold_kernels(make, members):
    with pytest.raises(TypeError, match="kernels must be a non-empty sequence of Kernel"):
        make(members)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (kernels.Linear(), "Linear()"),
        (kernels.Linear(gamma=0.5), "Linear(gamma=0.5)"),
        (kernels.Polynomial(), "Polynomial(degree=2, coef0=1, gamma=1/p)"),
        (kernels.Polynomial(3, 0.5, 0.1), "Polynomial(degree=3, coef0=0.5, gamma=0.1)"),
        (kernels.RBF(0.25), "RBF(gamma=0.25)"),
        (kernels.RBF("median"), "RBF((gamma): Median(multiple=1, momentum=0))"),
        (kernels.RBF(), "RBF((gamma): Mean(multiple=1))"),
        (kernels.RBF("smoothed"), "RBF((gamma): Median(multiple=1, momentum=0.99))"),
        (kernels.Laplacian(0.25, norm=1), "Laplacian(gamma=0.25, norm=1)"),
        (kernels.RationalQuadratic(0.25, alpha=0.5), "RationalQuadratic(gamma=0.25, alpha=0.5)"),
        (kernels.InverseMultiquadric(), "InverseMultiquadric(gamma=1)"),
        (kernels.SelfTuning(0.5, neighbours=3), "SelfTuning(gamma=0.5, neighbours=3)"),
        (kernels.SelfTuning("mean"), "SelfTuning(neighbours=7 (gamma): Mean(multiple=1))"),
        (
            2.0 * kernels.Linear() + kernels.RBF(1.0),
            "Sum(weights=[2, 1] (kernels): ModuleList((0): Linear() (1): RBF(gamma=1)))",
        ),
        (kernels.Linear() * kernels.RBF(1.0), "Product((kernels): ModuleList((0): Linear() (1): RBF(gamma=1)))"),
        (kernels.PerDimension(kernels.Linear()), "PerDimension((kernel): Linear())"),
    ],
    ids=lambda value: value.split("(")[0] if isinstance(value, str) else "",
)
def test_a_kernel_shows_its_settings(kernel, expected):
    words = " ".join(repr(kernel).split())
    assert words.replace("( ", "(").replace(" )", ")") == expected


@pytest.mark.parametrize("kernel", [kernels.Linear(), kernels.Polynomial(coef0=0.0)])
def test_a_point_without_length_has_the_cosine_zero_and_no_gradient(kernel):
    z = Z.clone()
    z[0] = 0
    z.requires_grad_()
    cosines = Cosine(kernel)(z)
    assert bool((cosines[0] == 0).all())
    gradient = torch.autograd.grad(cosines.square().sum(), z)[0]
    assert bool(gradient.isfinite().all())
    assert bool((gradient[0] == 0).all())


SPECTRAL = [
    kernels.RBF(0.5),
    kernels.Laplacian(0.5),
    kernels.Laplacian(0.5, norm=1),
    kernels.RationalQuadratic(0.5, alpha=2.0),
    kernels.InverseMultiquadric(0.5),
    kernels.RBF(0.5) * kernels.Laplacian(0.5),
]


@pytest.mark.parametrize("kernel", SPECTRAL, ids=range(len(SPECTRAL)))
def test_frequencies_are_a_function_of_the_seed_alone(kernel):
    def draw(seed, elsewhere):
        torch.manual_seed(elsewhere)
        return kernel.frequencies(kernel.spectral_noise(5, 3, torch.Generator().manual_seed(seed)))

    first = draw(0, elsewhere=1)
    assert first.shape == (5, 3)
    assert torch.equal(first, draw(0, elsewhere=2))
    assert not torch.equal(first, draw(1, elsewhere=1))


@pytest.mark.parametrize("wrong", ["rbf", None, [1]])
def test_kernels_add_and_multiply_with_kernels_only(wrong):
    with pytest.raises(TypeError):
        kernels.RBF() + wrong
    with pytest.raises(TypeError):
        kernels.RBF() * wrong


def test_sums_and_products_are_those_of_the_gram_matrices():
    a, b, c = kernels.RBF(0.1), kernels.Laplacian(0.2), kernels.Linear()
    torch.testing.assert_close((2.0 * a + b * c + a)(Z), 2 * a(Z) + b(Z) * c(Z) + a(Z))
    torch.testing.assert_close((a * b * c)(Z), a(Z) * b(Z) * c(Z))
    torch.testing.assert_close((a * 3)(Z), 3 * a(Z))


def test_mixture_weights_are_on_the_simplex():
    mixture = kernels.Mixture([kernels.RBF(), kernels.Linear()], weights=[1, 3])
    assert mixture.weights == [0.25, 0.75]
    learnt = kernels.Mixture([kernels.RBF(), kernels.Linear()], weights=[1, 3], learnable=True)
    torch.testing.assert_close(torch.stack(learnt.weights), torch.tensor([0.25, 0.75]))
    with torch.no_grad():
        learnt.logits.add_(torch.tensor([3.0, -2.0]))
    weights = torch.stack(learnt.weights)
    assert bool((weights > 0).all())
    assert float(weights.sum().detach()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("kernel", "bound"),
    [
        (kernels.Linear(), math.inf),
        (kernels.Polynomial(), math.inf),
        (kernels.RBF(), 1.0),
        (kernels.Laplacian(norm=1), 1.0),
        (2.0 * kernels.RBF() + 3.0 * kernels.Laplacian(), 5.0),
        (kernels.RBF() * kernels.RationalQuadratic(), 1.0),
        (kernels.RBF() + kernels.Linear(), math.inf),
    ],
)
def test_bound_is_the_largest_value(kernel, bound):
    assert kernel.bound == pytest.approx(bound)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Linear(),
        kernels.Polynomial(1, 1.0),
        kernels.Polynomial(2, 1.0),
        kernels.Polynomial(2, 0.0),
        kernels.Polynomial(3, 0.5),
    ],
    ids=str,
)
def test_rank_is_the_number_of_directions_that_vary(kernel, p):
    z = torch.randn(60, p, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    gram = kernel(z)
    centred = gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()
    assert int(torch.linalg.matrix_rank(centred, hermitian=True, rtol=1e-9)) == kernel.rank(p)


@pytest.mark.parametrize("kernel", [kernels.RBF(), kernels.Laplacian(), kernels.RationalQuadratic()])
def test_an_unresolved_kernel_says_what_to_do(kernel):
    from kvicreg.kernels.pairs import AllPairs

    with pytest.raises(ValueError, match=r"call kernel\.resolve\(views\) first"):
        kernel.evaluate(AllPairs(Z))


def test_a_mixture_computes_one_distance_matrix_for_all_members():
    from kvicreg.kernels.pairs import AllPairs

    pairs = AllPairs(Z)
    mixture = (kernels.RBF() + kernels.RationalQuadratic() + kernels.Laplacian()).resolve(pairs)
    first = pairs.squared_distance
    mixture.evaluate(pairs)
    assert pairs.squared_distance is first


@pytest.mark.parametrize(
    "of", [lambda *k: sum(k[1:], start=k[0]), lambda *k: k[0] * k[1] * k[2]], ids=["sum", "product"]
)
def test_members_share_the_distances_of_points_too(monkeypatch, of):
    computed = []

    def counted(x):
        computed.append(x)
        return torch.cdist(x, x).square()

    monkeypatch.setattr("kvicreg.kernels.pairs.within_distances", counted)
    kernel = of(kernels.RBF(), kernels.RationalQuadratic("smoothed"), kernels.Laplacian())
    kernel.resolve(Z)
    assert len(computed) == 1
    kernel.advance(Z)
    assert len(computed) == 2


@pytest.mark.parametrize("kernel", [kernels.Linear(), kernels.Polynomial(), kernels.RBF() * kernels.Polynomial()])
def test_a_scale_for_each_dimension_is_the_kernel_of_scaled_points(kernel):
    x = torch.randn(9, 3, dtype=torch.float64) * torch.tensor([1.0, 5.0, 0.5])
    scaled = x / (x.var(0, correction=0) / x.var(0, correction=0).mean()).sqrt()
    own = kernels.PerDimension(kernel)
    torch.testing.assert_close(own(x), kernel(scaled))
    torch.testing.assert_close(own.diagonal(x), kernel(scaled).diagonal())
    near, far = x[:4], x[4:8]
    resolved = own.resolve(x)
    expected = kernel.resolve(scaled).squared_distance(scaled[:4], scaled[4:8])
    torch.testing.assert_close(resolved.squared_distance(near, far), expected)
