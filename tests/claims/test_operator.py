"""The covariance operator of a batch is the one of kernel PCA and of HSIC.

1. The eigenvalues of K_hat / b are scikit-learn's KernelPCA eigenvalues over b, for every kernel.
2. The linear kernel's spectrum is that of the Euclidean covariance matrix (over b), wide or narrow.
3. tr(K_hat^2) / b^2 is the squared Hilbert-Schmidt norm of the covariance matrix of explicit polynomial features.
4. The trace is the total variance in feature space, the mean squared distance to the mean.
5. The off-diagonal norm is |K_hat|_F^2 without its diagonal, over b^2, on either side of the operator.
6. lambda_i / b is the variance of the batch along its i-th kernel principal component.
7. The squared HS norm is the biased estimate of HSIC(z, z), written as expectations over pairs.
8. Nothing changes under a permutation of the rows; nor, for shift-invariant kernels, under a common translation; nor,
   for kernels of inner products and Euclidean distances, under a rotation.
9. The effective rank is exp of the entropy of the spectrum: 1 for a line, b - 1 for equidistant points.
"""

import math

import numpy as np
import numpy_reference as reference
import pytest
import torch
from kernel_pairs import PAIRS
from scipy.stats import entropy as scipy_entropy
from scipy.stats import ortho_group
from sklearn.decomposition import PCA, KernelPCA
from sklearn.preprocessing import PolynomialFeatures

from kvicreg import kernels
from kvicreg.operators import CovarianceOperator, covariance_operator

RNG = np.random.default_rng(1)
Z = RNG.normal(size=(14, 4)) * [3, 1, 1, 0.3]
B = len(Z)
SHIFT_INVARIANT = ["rbf", "laplacian", "laplacian-l1", "rq", "mixture"]
ROTATION_INVARIANT = ["linear", "polynomial", "polynomial-3", "rbf", "laplacian", "rq", "mixture", "product"]


def operator(name, z=Z):
    kernel = PAIRS[name][0]().requires_grad_(False)
    return covariance_operator(torch.from_numpy(np.ascontiguousarray(z)), kernel)


def padded(values, length=B):
    values = values.detach().numpy()
    return np.pad(values, (0, length - len(values)))


@pytest.mark.parametrize("name", PAIRS)
def test_spectrum_is_kernel_pcas(name):  # claim 1
    pca = KernelPCA(kernel="precomputed", eigen_solver="dense").fit(PAIRS[name][1].gram(Z, Z))
    expected = np.zeros(B)
    expected[: len(pca.eigenvalues_)] = np.sort(pca.eigenvalues_)[::-1] / B
    np.testing.assert_allclose(padded(operator(name).eigenvalues()), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("shape", [(14, 4), (14, 14), (6, 20)])
def test_linear_spectrum_is_that_of_the_covariance_matrix(shape):  # claim 2
    z = RNG.normal(size=shape)
    ours = covariance_operator(torch.from_numpy(z), "linear").eigenvalues().numpy()
    expected = np.linalg.eigvalsh(np.cov(z.T, bias=True))[::-1][: min(shape)]
    np.testing.assert_allclose(ours, expected, atol=1e-12)
    np.testing.assert_allclose(ours[:3], PCA(3).fit(z).explained_variance_ * (shape[0] - 1) / shape[0])


@pytest.mark.parametrize("name", ["polynomial", "polynomial-3", "polynomial-homogeneous"])
def test_hs_norm_is_that_of_explicit_polynomial_features(name):  # claim 3
    degree, coef0, gamma = {"polynomial": (2, 1.0, 0.25), "polynomial-3": (3, 0.5, 0.2)}.get(name, (2, 0.0, 0.25))
    monomials = PolynomialFeatures(degree).fit(Z)
    features = monomials.transform(Z)
    for column, powers in enumerate(monomials.powers_):
        # (g x.y + c)^d expands into monomials with these multinomial coefficients
        rest = degree - powers.sum()
        count = math.factorial(degree) // math.prod(math.factorial(int(k)) for k in [*powers, rest])
        features[:, column] *= math.sqrt(count * gamma ** powers.sum() * coef0 ** int(rest))
    covariance = np.cov(features.T, bias=True)
    ours = operator(name)
    assert float(ours.squared_hs_norm()) == pytest.approx((covariance**2).sum(), rel=1e-10)
    assert float(ours.hs_norm()) == pytest.approx(np.linalg.norm(covariance), rel=1e-10)


@pytest.mark.parametrize("name", PAIRS)
def test_trace_is_the_total_variance_in_feature_space(name):  # claim 4
    k = PAIRS[name][1].gram(Z, Z)
    expected = np.mean([k[i, i] - 2 * k[i].mean() + k.mean() for i in range(B)])
    assert float(operator(name).trace()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("b", [4, 14])  # the linear kernel has p = 4: once the Gram side, once the feature side
def test_off_diagonal_norm_drops_the_diagonal_of_the_centred_gram_matrix(name, b):  # claim 5
    expected = reference.off_diagonal(PAIRS[name][1].gram(Z[:b], Z[:b]))
    ours = operator(name, Z[:b])
    assert float(ours.squared_offdiagonal_hs_norm()) == pytest.approx(expected, rel=1e-6)
    assert float(ours.offdiagonal_hs_norm()) == pytest.approx(math.sqrt(expected), rel=1e-6)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "polynomial"])
def test_eigenvalues_are_variances_along_kernel_principal_components(name):  # claim 6
    scores = KernelPCA(3, kernel="precomputed", eigen_solver="dense").fit_transform(PAIRS[name][1].gram(Z, Z))
    np.testing.assert_allclose(operator(name).eigenvalues().numpy()[:3], scores.var(axis=0), rtol=1e-9)


@pytest.mark.parametrize("name", PAIRS)
def test_squared_hs_norm_is_the_hsic_of_the_batch_with_itself(name):  # claim 7
    k = PAIRS[name][1].gram(Z, Z)
    # E[k k'] + E[k] E[k'] - 2 E[ E[k|i] E[k'|i] ], with the empirical expectations
    hsic = np.mean(k * k) + np.mean(k) ** 2 - 2 * np.mean(k.mean(axis=1) ** 2)
    assert float(operator(name).squared_hs_norm()) == pytest.approx(hsic, rel=1e-6)


def _summary(op):
    return torch.cat([op.eigenvalues(), torch.stack([op.trace(), op.hs_norm(), op.offdiagonal_hs_norm()])]).detach()


@pytest.mark.parametrize("name", PAIRS)
def test_row_order_does_not_matter(name):  # claim 8
    torch.testing.assert_close(_summary(operator(name, Z[RNG.permutation(B)])), _summary(operator(name)))


@pytest.mark.parametrize("name", [*SHIFT_INVARIANT, "linear"])  # the linear kernel too, because it is centred
def test_a_common_translation_does_not_matter(name):  # claim 8
    torch.testing.assert_close(_summary(operator(name, Z + RNG.normal(size=4))), _summary(operator(name)))


@pytest.mark.parametrize("name", ROTATION_INVARIANT)
def test_a_rotation_does_not_matter(name):  # claim 8
    rotation = ortho_group.rvs(4, random_state=0)
    torch.testing.assert_close(_summary(operator(name, Z @ rotation)), _summary(operator(name)))


def test_a_rotation_matters_to_the_l1_laplacian():  # claim 8 would be empty if everything passed
    rotation = ortho_group.rvs(4, random_state=0)
    assert not torch.allclose(_summary(operator("laplacian-l1", Z @ rotation)), _summary(operator("laplacian-l1")))


@pytest.mark.parametrize("name", PAIRS)
def test_effective_rank_is_the_exponential_of_the_entropy(name):  # claim 9
    expected = np.exp(scipy_entropy(np.maximum(reference.spectrum(PAIRS[name][1].gram(Z, Z)), 0)))
    assert float(operator(name).effective_rank()) == pytest.approx(expected, rel=1e-6)


def test_effective_rank_of_a_line_is_one_and_of_equidistant_points_b_minus_one():  # claim 9
    line = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None] * torch.ones(1, 5, dtype=torch.float64)
    assert float(covariance_operator(line, "linear").effective_rank()) == pytest.approx(1)
    simplex = torch.eye(9, dtype=torch.float64)
    assert float(covariance_operator(simplex, kernels.RBF(gamma=0.7)).effective_rank()) == pytest.approx(8)
    assert float(CovarianceOperator.from_gram(simplex).effective_rank()) == pytest.approx(8)
