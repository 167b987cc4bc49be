"""What theory says of the approximations, checked against scikit-learn's kernels and numpy.

1. A shift-invariant kernel is the mean of cos(w . (x - y)) over its spectral density: for each kernel the mean over
   many drawn frequencies lies within five standard errors of scikit-learn's (or the closed-form) kernel.
2. Random Fourier features are unbiased: averaged over seeds, both forms give the kernel.
3. Their error falls as 1 / sqrt(D): Gram matrix, spectrum and loss, slope -1/2 on log axes.
4. Nystroem with all points of both views as landmarks (gamma fixed) is exact: Gram, spectrum, loss and gradient.
5. Nystroem's error of the Gram matrix falls as landmarks are added, and for a kernel of finite rank it is zero from
   that rank on.
"""

import numpy as np
import pytest
import torch
from sklearn.metrics import pairwise

from kvicreg import KernelVICRegLoss, kernels, operators
from kvicreg.operators.shard import Shard

GAMMA = 0.3
X = np.random.default_rng(0).normal(size=(24, 3))
TORCH_X = torch.from_numpy(X)


def distances():
    return np.linalg.norm(X[:, None] - X[None], axis=-1)


CASES = {
    "rbf": (kernels.RBF(GAMMA), lambda: pairwise.rbf_kernel(X, gamma=GAMMA)),
    "laplacian-l1": (kernels.Laplacian(GAMMA, norm=1), lambda: pairwise.laplacian_kernel(X, gamma=GAMMA)),
    "laplacian-l2": (kernels.Laplacian(GAMMA), lambda: np.exp(-GAMMA * distances())),
    "rq": (kernels.RationalQuadratic(GAMMA, alpha=0.7), lambda: (1 + GAMMA * distances() ** 2 / 0.7) ** -0.7),
    "product": (
        kernels.RBF(GAMMA) * kernels.Laplacian(GAMMA, norm=1),
        lambda: pairwise.rbf_kernel(X, gamma=GAMMA) * pairwise.laplacian_kernel(X, gamma=GAMMA),
    ),
    "mixture": (
        kernels.Mixture([kernels.RBF(GAMMA), kernels.RationalQuadratic(GAMMA)], [0.25, 0.75]),
        lambda: 0.25 * pairwise.rbf_kernel(X, gamma=GAMMA) + 0.75 / (1 + GAMMA * distances() ** 2),
    ),
}


def features(approximation, kernel, x=TORCH_X):
    return approximation.features([x], kernel, Shard.of(x, gather=False))[0]


@pytest.mark.parametrize("name", [name for name in CASES if name != "mixture"])
def test_kernel_is_the_mean_of_cosines_over_its_spectral_density(name):
    kernel, reference = CASES[name]
    noise = kernel.spectral_noise(200_000, 3, torch.Generator().manual_seed(1))
    frequencies = kernel.frequencies(noise).double().numpy()
    cosines = np.cos(frequencies @ (X[0] - X[1:]).T)
    standard_error = cosines.std(0) / np.sqrt(len(cosines))
    assert (np.abs(cosines.mean(0) - reference()[0, 1:]) < 5 * standard_error).all()


@pytest.mark.parametrize("form", ["paired", "cosine"])
@pytest.mark.parametrize("name", CASES)
def test_random_fourier_features_are_unbiased(name, form):
    kernel, reference = CASES[name]
    grams = []
    for seed in range(300):
        phi = features(operators.RandomFourier(features=64, form=form, seed=seed), kernel)
        grams.append((phi @ phi.mT).numpy())
    error = np.abs(np.mean(grams, axis=0) - reference())
    standard_error = np.std(grams, axis=0) / np.sqrt(len(grams))
    assert (error <= 6 * standard_error + 1e-12).all()  # 300 pairs: five sigma is passed once in a thousand runs


def slope(sizes, errors):
    return np.polyfit(np.log(sizes), np.log(errors), 1)[0]


@pytest.mark.parametrize("name", ["rbf", "laplacian-l2", "rq"])
def test_error_of_random_fourier_features_falls_as_one_over_the_root_of_their_number(name):
    kernel, reference = CASES[name]
    centre = np.eye(len(X)) - 1 / len(X)
    spectrum = np.linalg.eigvalsh(centre @ reference() @ centre / len(X))
    other = TORCH_X + 0.2 * torch.from_numpy(np.random.default_rng(1).normal(size=X.shape))
    exact_loss = float(KernelVICRegLoss(kernel, "paper")(TORCH_X, other))
    sizes, errors = [128, 512, 2048, 8192], {"gram": [], "spectrum": [], "loss": []}
    for count in sizes:
        squares = {what: [] for what in errors}
        for seed in range(12):
            approximation = operators.RandomFourier(features=count, seed=seed)
            phi = features(approximation, kernel)
            gram = (phi @ phi.mT).numpy()
            squares["gram"].append(((gram - reference()) ** 2).mean())
            squares["spectrum"].append(((np.linalg.eigvalsh(centre @ gram @ centre / len(X)) - spectrum) ** 2).mean())
            loss = float(KernelVICRegLoss(kernel, "paper", approximation=approximation)(TORCH_X, other))
            squares["loss"].append((loss - exact_loss) ** 2)
        for what, values in squares.items():
            errors[what].append(np.sqrt(np.mean(values)))
    assert slope(sizes, errors["gram"]) == pytest.approx(-0.5, abs=0.1)
    assert slope(sizes, errors["spectrum"]) == pytest.approx(-0.5, abs=0.2)
    assert slope(sizes, errors["loss"]) == pytest.approx(-0.5, abs=0.35)  # a scalar over 12 seeds: noisier
    assert errors["loss"][-1] < errors["loss"][0] / 3


@pytest.mark.parametrize("name", CASES)
def test_nystrom_with_all_points_as_landmarks_is_exact(name):
    kernel, reference = CASES[name]
    approximation = operators.Nystrom(landmarks=2 * len(X))
    phi = features(approximation, kernel)
    np.testing.assert_allclose((phi @ phi.mT).numpy(), reference(), atol=1e-8)
    centre = np.eye(len(X)) - 1 / len(X)
    expected = np.linalg.eigvalsh(centre @ reference() @ centre / len(X))[::-1]
    operator = operators.covariance_operator(TORCH_X, kernel, approximation)
    np.testing.assert_allclose(operator.eigenvalues().numpy(), expected, atol=1e-8)
    for parametrization in ("scaled", "paper"):
        results = []
        for used in (None, approximation):
            z1 = TORCH_X.clone().requires_grad_()
            loss = KernelVICRegLoss(kernel, parametrization, approximation=used)(z1, TORCH_X.flip(0) * 0.9)
            loss.backward()
            results.append((loss.detach(), z1.grad))
        torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("choice", ["uniform", "kmeans++", "leverage"])
def test_nystrom_error_falls_with_landmarks_to_zero_at_the_rank_of_the_kernel(choice):
    _, reference = CASES["rbf"]
    errors = []
    for count in (3, 6, 12, 24):
        runs = []
        for seed in range(6):
            phi = features(operators.Nystrom(count, choice=choice, seed=seed), kernels.RBF(GAMMA))
            runs.append(np.linalg.norm((phi @ phi.mT).numpy() - reference()))
        errors.append(np.mean(runs))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-7
    quadratic = kernels.Polynomial(degree=2, coef0=1.0, gamma=1.0)  # ten monomials of three coordinates
    phi = features(operators.Nystrom(landmarks=12, choice=choice), quadratic)
    np.testing.assert_allclose((phi @ phi.mT).numpy(), (X @ X.T + 1) ** 2, rtol=1e-6, atol=1e-6)
