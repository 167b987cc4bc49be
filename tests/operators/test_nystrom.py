"""Nystroem features are the kernel's at the landmarks, and below it elsewhere."""

import numpy as np
import pytest
import torch
from approximated import KERNELS, STATIONARY, features, gram, views

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.operators import Nystrom
from kvicreg.operators.shard import Shard


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
def test_all_points_as_landmarks_is_exact(name, parametrization):
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
def test_is_the_formula_for_its_landmarks(name, choice):
    z = views(1)
    phi = features(Nystrom(6, choice), z, KERNELS[name]())[0].numpy()
    approximate, exact = phi @ phi.T, gram(name, z[0])
    # the landmarks are the points where the approximation is exact
    landmarks = np.flatnonzero(np.isclose(np.diag(approximate), np.diag(exact), rtol=1e-7))
    assert len(landmarks) >= min(6, np.linalg.matrix_rank(exact))
    cross, inner = exact[:, landmarks], exact[np.ix_(landmarks, landmarks)]
    np.testing.assert_allclose(approximate, cross @ np.linalg.pinv(inner, rcond=1e-12) @ cross.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", STATIONARY)
def test_what_is_left_out_is_positive_and_shrinks_with_more_landmarks(name):
    z = views(1, b=30)
    exact, errors = gram(name, z[0]), []
    for m in (3, 10, 30):
        phi = features(Nystrom(m), z, KERNELS[name]())[0].numpy()
        left_out = exact - phi @ phi.T
        assert np.linalg.eigvalsh(left_out)[0] > -1e-7
        errors.append(np.trace(left_out))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-6


def test_repeated_landmarks_do_no_harm():
    z = views(b=8)
    z[:, 4:] = z[:, :4]
    terms = KernelVICRegLoss("rbf", approximation=Nystrom(16)).terms(*z)
    for term, reference in zip(terms, KernelVICRegLoss("rbf").terms(*z), strict=True):
        torch.testing.assert_close(term, reference, rtol=1e-5, atol=1e-6)


def test_exact_collapse_is_finite():
    z = torch.ones(2, 8, 3, requires_grad=True)
    KernelVICRegLoss("rbf", approximation=Nystrom(4))(*z).backward()
    assert bool(z.grad.isfinite().all())


def test_choice_is_a_function_of_the_seed():
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
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        Nystrom(**settings)


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
