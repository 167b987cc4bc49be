"""The spectrum of the covariance operator, for people who know kernel PCA."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from kvicreg.kernels import Kernel
from kvicreg.operators import Approximation, covariance_operator

__all__ = ["KernelSpectrum"]


class KernelSpectrum(BaseEstimator):
    """The eigenvalues that kernel PCA has: of the centred Gram matrix ``H K H``, largest first.

    They are n times those of the covariance operator ``C`` of the rows in feature space. Nothing is thrown away: there
    are n of them, or with few explicit features as many as those; what `KernelPCA` leaves out is zero.

    Args:
        kernel: a name or a `Kernel`, as for `KernelVICReg`; its bandwidth is the mean distance unless given.
        approximation: None (exact), `operators.Nystrom(landmarks=m)` or `operators.RandomFourier(features=D)`.

    Attributes:
        eigenvalues_: of ``H K H``, descending.
        explained_variance_ratio_: the same as shares of their sum.
        effective_rank_: ``exp`` of the entropy of the shares: how many directions the rows use.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from kvicreg.sklearn import KernelSpectrum
        >>> spectrum = KernelSpectrum(kernel="linear").fit(load_iris().data)
        >>> spectrum.explained_variance_ratio_.round(3).tolist()  # what PCA tells too
        [0.925, 0.053, 0.017, 0.005]
    """

    def __init__(self, kernel: str | Kernel = "rbf", approximation: Approximation | None = None) -> None:
        self.kernel = kernel
        self.approximation = approximation

    def fit(self, X: Any, y: Any = None) -> Self:
        """Measure the spectrum of the rows of X, a table ``(n, p)``; y is ignored."""
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        with torch.no_grad():
            operator = covariance_operator(torch.tensor(X), self.kernel, self.approximation)
            self.eigenvalues_ = operator.eigenvalues().numpy() * len(X)
            self.effective_rank_ = float(operator.effective_rank())
        total = self.eigenvalues_.sum()
        self.explained_variance_ratio_ = self.eigenvalues_ / total if total > 0 else self.eigenvalues_
        return self
