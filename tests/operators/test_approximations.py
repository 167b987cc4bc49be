"""Nystroem and random Fourier features approximate what they say, and nothing b x b is ever built."""

import copy

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.operators import Nystrom, RandomFourier, covariance_operator
from kvicreg.operators.approximation import APPROXIMATIONS
from kvicreg.operators.shard import Shard
from kvicreg.options import Values

KERNELS = {
    "linear": kernels.Linear,
    "polynomial": kernels.Polynomial,
    "rbf": lambda: kernels.RBF(0.2),
    "laplacian": lambda: kernels.Laplacian(0.4),
    "laplacian-l1": lambda: kernels.Laplacian(0.2, norm=1),
    "rq": lambda: kernels.RationalQuadratic(0.3, alpha=0.7),
    "mixture": lambda: kernels.Mixture([kernels.RBF(0.2), kernels.Laplacian(0.4)], weights=[1, 3]),
    "product": lambda: kernels.RBF(0.1) * kernels.RationalQuadratic(0.2),
}
STATIONARY = [name for name in KERNELS if name not in ("linear", "polynomial")]


def views(count=2, b=20, p=3, seed=0):
    return torch.randn(count, b, p, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def features(approximation, z, kernel):
    return approximation.features(z, kernel, Shard.of(z, gather=False)).detach()


def gram(name, x):
    return KERNELS[name]()(x).detach().numpy()


class TestNystrom:
    @pytest.mark.parametrize("name", KERNELS)
    @pytest.mark.parametrize("parametrization", ["paper", "scaled"])
    def test_all_points_as_landmarks_is_exact(self, name, parametrization):
        z = views(b=8, p=4)
        exact, nystrom = [z.clone().requires_grad_() for _ in range(2)]
        expected = KernelVICRegLoss(KERNELS[name](), parametrization).terms(*exact)
        ours = KernelVICRegLoss(KERNELS[name](), parametrization, approximation=Nystrom(16)).terms(*nystrom)
        for term, reference in zip(ours, expected, strict=True):
            torch.testing.assert_close(term, reference, rtol=1e-6, atol=1e-8)
        expected.total.backward()
        ours.total.backward()
        torch.testing.assert_close(nystrom.grad, exact.grad, rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("name", KERNELS)
    @pytest.mark.parametrize("choice", ["uniform", "kmeans++", "leverage"])
    def test_is_the_formula_for_its_landmarks(self, name, choice):
        z = views(1)
        phi = features(Nystrom(6, choice), z, KERNELS[name]())[0].numpy()
        approximate, exact = phi @ phi.T, gram(name, z[0])
        # the landmarks are the points where the approximation is exact
        landmarks = np.flatnonzero(np.isclose(np.diag(approximate), np.diag(exact), rtol=1e-7))
        assert len(landmarks) >= min(6, np.linalg.matrix_rank(exact))
        cross, inner = exact[:, landmarks], exact[np.ix_(landmarks, landmarks)]
        np.testing.assert_allclose(
            approximate, cross @ np.linalg.pinv(inner, rcond=1e-12) @ cross.T, rtol=1e-5, atol=1e-6
        )

    @pytest.mark.parametrize("name", STATIONARY)
    def test_what_is_left_out_is_positive_and_shrinks_with_more_landmarks(self, name):
        z = views(1, b=30)
        exact, errors = gram(name, z[0]), []
        for m in (3, 10, 30):
            phi = features(Nystrom(m), z, KERNELS[name]())[0].numpy()
            left_out = exact - phi @ phi.T
            assert np.linalg.eigvalsh(left_out)[0] > -1e-7
            errors.append(np.trace(left_out))
        assert errors[0] > errors[1] > errors[2]
        assert errors[2] < 1e-6

    def test_repeated_landmarks_do_no_harm(self):
        z = views(b=8)
        z[:, 4:] = z[:, :4]
        terms = KernelVICRegLoss("rbf", approximation=Nystrom(16)).terms(*z)
        for term, reference in zip(terms, KernelVICRegLoss("rbf").terms(*z), strict=True):
            torch.testing.assert_close(term, reference, rtol=1e-5, atol=1e-6)

    def test_exact_collapse_is_finite(self):
        z = torch.ones(2, 8, 3, requires_grad=True)
        KernelVICRegLoss("rbf", approximation=Nystrom(4))(*z).backward()
        assert bool(z.grad.isfinite().all())

    def test_choice_is_a_function_of_the_seed(self):
        z = views(1)
        kernel = kernels.RBF(0.2)
        for choice in ("uniform", "kmeans++", "leverage"):
            first, again = (features(Nystrom(5, choice, seed=3), z, kernel) for _ in range(2))
            torch.testing.assert_close(first, again, rtol=0, atol=0)
            other = features(Nystrom(5, choice, seed=4), z, kernel)
            assert not torch.allclose(first @ first.mT, other @ other.mT)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"landmarks": 0}, "landmarks must be at least 1, got 0"),
            ({"choice": "random"}, 'choice must be "uniform", "kmeans\\+\\+" or "leverage"'),
        ],
    )
    def test_wrong_settings_are_named(self, settings, message):
        with pytest.raises(ValueError, match=message):
            Nystrom(**settings)


class TestRandomFourier:
    @pytest.mark.parametrize("name", STATIONARY)
    @pytest.mark.parametrize("form", ["paired", "cosine"])
    def test_inner_products_approach_the_kernel(self, name, form):
        z, count = views(1), 20_000
        phi = features(RandomFourier(count, form), z, KERNELS[name]())[0].numpy()
        # an average of D bounded cosines: the error is of the order of 1 / sqrt(D)
        np.testing.assert_allclose(phi @ phi.T, gram(name, z[0]), atol=6 / np.sqrt(count))

    @pytest.mark.parametrize("name", ["rbf", "laplacian", "rq"])
    def test_orthogonal_frequencies_are_unbiased_too(self, name):
        z, count = views(1, p=5), 20_000
        phi = features(RandomFourier(count, orthogonal=True), z, KERNELS[name]())[0].numpy()
        np.testing.assert_allclose(phi @ phi.T, gram(name, z[0]), atol=6 / np.sqrt(count))

    @pytest.mark.parametrize("p", [1, 2, 4])
    def test_orthogonal_frequencies_of_a_product_are_unbiased(self, p):
        z, count = views(1, p=p), 40_000
        kernel = kernels.RBF(0.3) * kernels.RBF(0.2)
        phi = features(RandomFourier(count, orthogonal=True), z, kernel)[0].numpy()
        np.testing.assert_allclose(phi @ phi.T, kernel(z[0]).numpy(), atol=6 / np.sqrt(count))

    def test_orthogonal_frequencies_point_in_every_direction(self):
        from kvicreg.operators.random_fourier import _orthogonal

        generator = torch.Generator().manual_seed(0)
        rows = _orthogonal(torch.ones(3000, 3), generator).reshape(-1, 3, 3)
        torch.testing.assert_close(rows @ rows.mT, 3 * torch.eye(3).expand_as(rows), atol=1e-5, rtol=0)
        # every entry of a uniformly drawn orthogonal matrix has mean 0 and variance 1 / p
        assert float(rows.mean(0).abs().max()) < 5 / 1000**0.5
        assert float((rows.var(0) - 1).abs().max()) < 0.2

    def test_orthogonal_frequencies_have_less_error(self):
        z = 0.5 * views(1, p=16)
        kernel = kernels.RBF(1 / 16)
        exact = kernel(z[0]).numpy()
        errors = {
            orthogonal: np.mean(
                [
                    np.square((phi @ phi.mT)[0].numpy() - exact).mean()
                    for phi in (
                        features(RandomFourier(32, orthogonal=orthogonal, seed=s), z, kernel) for s in range(20)
                    )
                ]
            )
            for orthogonal in (True, False)
        }
        assert errors[True] < 0.8 * errors[False]

    @pytest.mark.parametrize("name", STATIONARY)
    def test_paired_form_is_exact_on_the_diagonal(self, name):
        z = views(1)
        phi = features(RandomFourier(64), z, KERNELS[name]())
        torch.testing.assert_close(phi.square().sum(-1), KERNELS[name]().diagonal(z))

    @pytest.mark.parametrize("name", ["rbf", "rq"])
    def test_loss_approaches_the_exact_one(self, name):
        z = views(b=12)
        exact = KernelVICRegLoss(KERNELS[name](), "paper").terms(*z)
        ours = KernelVICRegLoss(KERNELS[name](), "paper", approximation=RandomFourier(16384)).terms(*z)
        for term, reference in zip(ours, exact, strict=True):
            torch.testing.assert_close(term, reference, rtol=0.05, atol=5e-3)

    @pytest.mark.parametrize("form", ["paired", "cosine"])
    @pytest.mark.parametrize("name", STATIONARY)
    def test_gradient_is_that_of_the_features(self, name, form):
        x, y = views(b=5)
        criterion = KernelVICRegLoss(KERNELS[name](), approximation=RandomFourier(6, form))
        assert torch.autograd.gradcheck(criterion, (x.requires_grad_(), y.requires_grad_()))

    def test_views_share_one_map(self):
        z = views(1)[0]
        for spectrum in ("per-view", "shared"):
            criterion = KernelVICRegLoss("rbf", approximation=RandomFourier(32), spectrum=spectrum)
            assert float(criterion.terms(z, z).invariance) == pytest.approx(0, abs=1e-12)

    def test_frequencies_follow_the_bandwidth(self):
        z = views()
        criterion = KernelVICRegLoss("rbf", approximation=RandomFourier(64))
        torch.testing.assert_close(criterion(*z), criterion(*(1000 * z)), rtol=1e-6, atol=1e-6)

    def test_frequencies_stay_unless_they_are_redrawn(self):
        z = views()
        fixed = KernelVICRegLoss("rbf", approximation=RandomFourier(32))
        assert float(fixed(*z)) == float(fixed(*z))
        redrawn = KernelVICRegLoss("rbf", approximation=RandomFourier(32, redraw=True))
        assert float(redrawn(*z)) != float(redrawn(*z))
        redrawn.eval()
        assert float(redrawn(*z)) == float(redrawn(*z))

    def test_looking_at_the_terms_draws_nothing_anew(self):
        z = views()
        redrawn = KernelVICRegLoss("rbf", approximation=RandomFourier(32, redraw=True))
        first = float(redrawn(*z))
        assert [float(redrawn.terms(*z).total) for _ in range(3)] == [first] * 3
        assert float(redrawn(*z)) != first
        groups = torch.arange(20) % 2
        redrawn(*z, groups=groups)
        assert redrawn.approximation._step == 3  # once per step, however many groups there are

    def test_redrawn_frequencies_continue_from_the_state(self):
        z = views()
        first = KernelVICRegLoss("rbf", approximation=RandomFourier(32, redraw=True))
        first(*z), first(*z)
        second = KernelVICRegLoss("rbf", approximation=RandomFourier(32, redraw=True))
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        assert float(first(*z)) == float(second(*z))

    @pytest.mark.parametrize("name", ["linear", "polynomial"])
    def test_kernels_without_a_spectral_density_say_what_to_use(self, name):
        with pytest.raises(ValueError, match=r"has no spectral density.*operators\.Nystrom"):
            KernelVICRegLoss(name, approximation=RandomFourier(32))(*views())

    def test_orthogonal_frequencies_need_a_euclidean_kernel(self):
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
    def test_wrong_settings_are_named(self, settings, message):
        with pytest.raises(ValueError, match=message):
            RandomFourier(**settings)


@pytest.mark.parametrize("approximation", [Nystrom(5), RandomFourier(6)], ids=["nystrom", "fourier"])
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
class TestBoth:
    def test_nothing_b_by_b_is_built(self, approximation, parametrization):
        b, shapes = 41, []

        class Spy(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                shapes.extend(
                    o.shape for o in (out if isinstance(out, tuple) else (out,)) if isinstance(o, torch.Tensor)
                )
                return out

        z = views(b=b).requires_grad_()
        with Spy():
            KernelVICRegLoss(kernels.RBF(0.2), parametrization, approximation=approximation)(*z).backward()
        assert not [shape for shape in shapes if tuple(shape).count(b) > 1]

    def test_works_in_half_precision_and_under_autocast(self, approximation, parametrization):
        z = views().bfloat16().requires_grad_()
        criterion = KernelVICRegLoss("rbf", parametrization, approximation=approximation)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(*z)
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss, criterion(*z.float()))
        loss.backward()
        assert bool(z.grad.isfinite().all())

    def test_operator_is_on_the_side_of_the_features(self, approximation, parametrization):
        operator = covariance_operator(views(1)[0], "rbf", approximation)
        assert operator.eigenvalues().shape[-1] <= 6
        assert operator.samples == 20


def test_they_show_their_settings_and_have_defaults():
    assert repr(Nystrom()) == "Nystrom(landmarks=256, choice='uniform')"
    assert repr(RandomFourier()) == "RandomFourier(features=512, form='paired', orthogonal=False, redraw=False)"
    assert (Nystrom().seed, RandomFourier().seed) == (0, 0)
    chosen = {name: APPROXIMATIONS.read(name, Values({})).build(7) for name in APPROXIMATIONS.names()}
    assert chosen.pop("exact") is chosen.pop("auto") is None
    assert (chosen["nystrom"].landmarks, chosen["nystrom"].seed) == (128, 7)
    assert (chosen["random-fourier"].count, chosen["random-fourier"].seed) == (128, 7)


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


@pytest.mark.parametrize("choice", ["kmeans++", "leverage"])
def test_landmarks_are_drawn_as_described(choice):
    z, kernel = views(2, b=60), kernels.RBF(0.2) * kernels.Linear()
    landmarks = Nystrom(3, choice, seed=4)._choose(z, kernel, Shard.of(z, gather=False))
    generator = torch.Generator().manual_seed(4)
    rows = torch.randperm(120, generator=generator)[:24].sort().values  # eight candidates for each
    candidates = z.flatten(0, 1)[rows]
    gram = kernel(candidates).numpy()
    if choice == "kmeans++":
        draws = torch.rand(3, generator=generator, dtype=torch.float64).numpy()
        chosen = [int(draws[0] * 24)]
        for draw in draws[1:]:
            distances = np.diag(gram)[:, None] + np.diag(gram)[chosen] - 2 * gram[:, chosen]
            shares = np.cumsum(distances.clip(0).min(1))
            chosen.append(int(np.searchsorted(shares, draw * shares[-1])))
    else:
        ridge = np.diag(gram)[:3].mean() / 100
        explained = gram[:, :3] @ np.linalg.solve(gram[:3, :3] + ridge * np.eye(3), gram[:3])
        scores = (np.diag(gram) - np.diag(explained)).clip(0) + ridge
        chosen = torch.multinomial(torch.from_numpy(scores), 3, generator=generator).tolist()
    torch.testing.assert_close(landmarks, candidates[chosen])


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


def test_one_landmark_and_two_features_are_enough():
    assert features(Nystrom(1), views(1), kernels.RBF(0.5)).shape[-1] == 1
    assert features(RandomFourier(2), views(1), kernels.RBF(0.5)).shape[-1] == 2
    assert features(RandomFourier(3, "cosine"), views(1), kernels.RBF(0.5)).shape[-1] == 3
