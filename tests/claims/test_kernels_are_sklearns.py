"""Our kernels are the ones everybody knows.

1. Each kernel's Gram matrix, between two sets of points, is scikit-learn's: `pairwise` for linear, polynomial, RBF and
   the L1 Laplacian, Gaussian processes' Matern(1/2) for the L2 Laplacian and RationalQuadratic for the RQ.
2. The polynomial kernel's scale is 1 / p unless given, as scikit-learn's.
3. Weighted sums, mixtures and products of kernels are those of their Gram matrices.
4. The median heuristic is gamma = 1 / median over the pairs i < j of both views of the distance in the formula
   (squared for RBF and RQ, Euclidean or L1 for the Laplacian).
5. Near neighbours far from the origin, as in a collapsing network, keep their kernel values in float32.
"""

import numpy as np
import pytest
import torch
from kernel_pairs import PAIRS
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics import pairwise

from kvicreg import kernels

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(11, 4)), RNG.normal(size=(7, 4))


def gram(kernel, x=X, y=Y):
    return kernel(torch.from_numpy(x), torch.from_numpy(y)).detach().numpy()


@pytest.mark.parametrize("name", PAIRS)
def test_gram_matrix_is_scikit_learns(name):  # claims 1 and 3
    make, ref = PAIRS[name]
    np.testing.assert_allclose(gram(make()), ref.gram(X, Y), rtol=1e-6 if "learnable" in name else 1e-12)


def test_l2_laplacian_is_the_matern_kernel_of_order_one_half():  # claim 1
    np.testing.assert_allclose(gram(kernels.Laplacian(gamma=0.4)), Matern(length_scale=2.5, nu=0.5)(X, Y), rtol=1e-12)


def test_polynomial_scale_is_one_over_the_number_of_columns():  # claim 2
    np.testing.assert_allclose(gram(kernels.Polynomial(3, 2.0)), pairwise.polynomial_kernel(X, Y, coef0=2.0))


def test_named_kernels_are_the_papers_five():  # claim 1
    assert {"linear", "polynomial", "rbf", "laplacian", "rational_quadratic", "rq"} <= set(kernels.KERNELS.names())


@pytest.mark.parametrize(
    ("kernel", "metric"),
    [
        (kernels.RBF("median"), "sqeuclidean"),
        (kernels.RationalQuadratic("median"), "sqeuclidean"),
        (kernels.Laplacian("median"), "euclidean"),
        (kernels.Laplacian("median", norm=1), "cityblock"),
    ],
    ids=["rbf", "rq", "laplacian", "laplacian-l1"],
)
@pytest.mark.parametrize("rows", [8, 9])  # an even and an odd number of pairs
def test_median_heuristic_is_one_over_the_median_of_the_pooled_pairs(kernel, metric, rows):  # claim 4
    x, y = RNG.normal(size=(rows, 4)), 3 * RNG.normal(size=(rows, 4))
    expected = 1 / np.median(np.concatenate([pdist(x, metric), pdist(y, metric)]))
    assert float(kernel.resolve(torch.from_numpy(x), torch.from_numpy(y)).gamma) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["rbf", "laplacian", "laplacian-l1", "rq"])
def test_neighbours_far_from_the_origin_keep_their_values_in_float32(name):  # claim 5
    points = (100.0 + RNG.normal(size=(9, 4))).astype(np.float32)
    make, ref = PAIRS[name]
    ours = make()(torch.from_numpy(points)).numpy()
    np.testing.assert_allclose(ours, ref.gram(points.astype(float), points.astype(float)), atol=2e-6)
