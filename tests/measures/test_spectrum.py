"""The spectrum is numpy's, and the effective rank counts directions."""

import math

import numpy as np
import pytest
import torch

from kvicreg.measures.spectrum import effective_rank, spectrum


def gaussian(n: int, q: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(n, q)))


@pytest.mark.parametrize(("n", "q"), [(50, 8), (8, 50)])
def test_spectrum_is_numpys_covariance_spectrum(n, q):
    x = gaussian(n, q)
    expected = np.sort(np.linalg.eigvalsh(np.cov(x.numpy().T, bias=True)))[::-1][: min(n, q)]
    np.testing.assert_allclose(spectrum(x).numpy(), expected, atol=1e-10)


@pytest.mark.parametrize("count", [1, 4, 30])
def test_effective_rank_counts_equal_directions(count):
    eigenvalues = torch.cat([torch.full((count,), 0.3, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)])
    assert effective_rank(eigenvalues) == pytest.approx(count)


def test_effective_rank_is_the_exponential_of_the_entropy_and_one_without_variance():
    assert effective_rank(torch.tensor([3.0, 1.0])) == pytest.approx(
        math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    )
    assert effective_rank(torch.zeros(3)) == 1
