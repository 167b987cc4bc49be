"""Kernels: positive-definite functions ``k(x, y) = <phi(x), phi(y)>`` of embeddings.

kernel = kernels.get("rq")                  # by name
kernel = 0.3 * kernels.RBF() + 0.7 * kernels.Linear()
kernel(x, y), kernel.paired(x, y), kernel.diagonal(x)
"""

from __future__ import annotations

import difflib

from kvicreg.kernels.bandwidth import Median
from kvicreg.kernels.base import Kernel, StationaryKernel
from kvicreg.kernels.composite import Mixture, Product, Sum
from kvicreg.kernels.laplacian import Laplacian
from kvicreg.kernels.linear import Linear
from kvicreg.kernels.polynomial import Polynomial
from kvicreg.kernels.rational_quadratic import RationalQuadratic
from kvicreg.kernels.rbf import RBF

__all__ = [
    "NAMES",
    "RBF",
    "Kernel",
    "Laplacian",
    "Linear",
    "Median",
    "Mixture",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "StationaryKernel",
    "Sum",
    "get",
]

NAMES: dict[str, type[Kernel]] = {
    "linear": Linear,
    "polynomial": Polynomial,
    "rbf": RBF,
    "laplacian": Laplacian,
    "rational_quadratic": RationalQuadratic,
    "rq": RationalQuadratic,
}
"""The kernels that have a name."""


def get(kernel: str | Kernel) -> Kernel:
    """The kernel of that name, with its default settings; a `Kernel` is returned as it is.

    Example:
        >>> get("rq")
        RationalQuadratic(
          alpha=1
          (gamma): Median(multiple=1, momentum=0)
        )
    """
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        raise TypeError(f"kernel must be a name or a kernels.Kernel, got {type(kernel).__name__}")
    name = kernel.lower().replace("-", "_")
    if name in NAMES:
        return NAMES[name]()
    close = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ValueError(f"unknown kernel {kernel!r}: {hint}the kernels are {', '.join(NAMES)}")
