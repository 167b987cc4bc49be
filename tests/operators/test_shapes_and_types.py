"""Operators of other types and shapes than the usual: what is not square is refused, and float64 stays float64."""

from __future__ import annotations

import pytest
import torch

from kvicreg import kernels
from kvicreg.operators import CovarianceOperator, RandomFourier, covariance_operator
from kvicreg.operators.products import hinge_sums


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_a_gram_matrix_is_square(shape):
    with pytest.raises(ValueError, match=r"gram must have shape \(\.\.\., b, b\)"):
        CovarianceOperator.from_gram(torch.zeros(shape))


def test_a_gram_matrix_has_numbers():
    with pytest.raises(TypeError, match=r"^gram must be a floating-point tensor"):
        CovarianceOperator.from_gram(torch.zeros(3, 3, dtype=torch.int64))


@pytest.mark.parametrize("solver", ["products", "cpu"])
def test_hinges_of_float64_are_float64(solver):
    z = torch.randn(40, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix = z @ z.T / 40
    expected = (1.2 - (torch.linalg.eigvalsh(matrix).clamp_min(0) + 1e-3).sqrt()).clamp_min(0).square().sum()
    sums = hinge_sums(matrix, 1.2, 1e-3, solver)
    assert sums.dtype == torch.float64
    torch.testing.assert_close(sums, expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize("features", [6, 8, 10])
def test_features_come_in_pairs_whatever_their_number(features):
    kernel = kernels.RBF(gamma=0.1) + kernels.RBF(gamma=0.4)
    approximation = RandomFourier(features=features)
    made = approximation.features(torch.randn(1, 6, 3), kernel, None)
    assert made.shape[-1] % 2 == 0
    assert made.shape[-1] <= features
    torch.testing.assert_close(made.square().sum(-1), torch.full((1, 6), 2.0))


def test_learnt_shares_scale_the_features():
    share = torch.tensor(0.3, requires_grad=True)
    kernel = share * kernels.RBF(gamma=0.2) + kernels.RBF(gamma=0.7)
    operator = covariance_operator(torch.randn(9, 4), kernel, RandomFourier(features=64))
    fixed = covariance_operator(torch.randn(9, 4), 0.3 * kernels.RBF(gamma=0.2), RandomFourier(features=64))
    assert operator.trace() > fixed.trace()
    (slope,) = torch.autograd.grad(operator.trace(), share)
    assert slope > 0
