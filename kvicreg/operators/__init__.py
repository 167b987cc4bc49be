"""Covariance operators of batches in feature space, exact or approximate, local or global."""

from kvicreg.operators.approximation import Approximation
from kvicreg.operators.build import covariance_operator, view_operators
from kvicreg.operators.covariance import CovarianceOperator
from kvicreg.operators.nystrom import Nystrom
from kvicreg.operators.random_fourier import RandomFourier
from kvicreg.operators.shared import shared_operator

__all__ = [
    "Approximation",
    "CovarianceOperator",
    "Nystrom",
    "RandomFourier",
    "covariance_operator",
    "shared_operator",
    "view_operators",
]
