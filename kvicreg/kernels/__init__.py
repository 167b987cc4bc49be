"""Kernels: positive-definite functions ``k(x, y) = <phi(x), phi(y)>`` of embeddings.

kernel = kernels.get("rq")                  # by name; mixtures too: "0.3*rbf+0.7*linear"
kernel = 0.3 * kernels.RBF() + 0.7 * kernels.Linear()
kernel(x, y), kernel.paired(x, y), kernel.diagonal(x)
"""

from __future__ import annotations

from kvicreg.kernels.bandwidth import Mean, Median
from kvicreg.kernels.base import Kernel, StationaryKernel
from kvicreg.kernels.composite import Mixture, Product, Sum
from kvicreg.kernels.inverse_multiquadric import InverseMultiquadric
from kvicreg.kernels.laplacian import Laplacian
from kvicreg.kernels.linear import Linear
from kvicreg.kernels.multi_rbf import multi_rbf
from kvicreg.kernels.names import get, make, register
from kvicreg.kernels.options import KERNELS, KernelOptions, StationaryOptions
from kvicreg.kernels.per_dimension import PerDimension
from kvicreg.kernels.polynomial import Polynomial
from kvicreg.kernels.rational_quadratic import RationalQuadratic
from kvicreg.kernels.rbf import RBF
from kvicreg.kernels.self_tuning import SelfTuning

__all__ = [
    "KERNELS",
    "RBF",
    "InverseMultiquadric",
    "Kernel",
    "KernelOptions",
    "Laplacian",
    "Linear",
    "Mean",
    "Median",
    "Mixture",
    "PerDimension",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "SelfTuning",
    "StationaryKernel",
    "StationaryOptions",
    "Sum",
    "get",
    "make",
    "multi_rbf",
    "register",
]
