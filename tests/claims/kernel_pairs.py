"""Every kernel of ours, with a fixed scale, beside its numpy reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy_reference as reference

from kvicreg import kernels

PAIRS: dict[str, tuple[Callable[[], kernels.Kernel], reference.Reference]] = {
    "linear": (kernels.Linear, reference.LINEAR),
    "polynomial": (kernels.Polynomial, reference.polynomial(2, 1.0)),
    "polynomial-3": (lambda: kernels.Polynomial(3, 0.5, gamma=0.2), reference.polynomial(3, 0.5, 0.2)),
    "polynomial-homogeneous": (lambda: kernels.Polynomial(2, 0.0), reference.polynomial(2, 0.0)),
    "rbf": (lambda: kernels.RBF(gamma=0.2), reference.rbf(0.2)),
    "laplacian": (lambda: kernels.Laplacian(gamma=0.4), reference.laplacian(0.4, norm=2)),
    "laplacian-l1": (lambda: kernels.Laplacian(gamma=0.15, norm=1), reference.laplacian(0.15, norm=1)),
    "rq": (lambda: kernels.RationalQuadratic(gamma=0.3), reference.rq(0.3, 1.0)),
    "rq-heavy-tailed": (lambda: kernels.RationalQuadratic(gamma=0.3, alpha=0.4), reference.rq(0.3, 0.4)),
    "sum": (
        lambda: 0.5 * kernels.RBF(gamma=0.2) + 2.0 * kernels.Linear(),
        reference.weighted_sum([0.5, 2.0], [reference.rbf(0.2), reference.LINEAR]),
    ),
    "mixture": (
        lambda: kernels.Mixture([kernels.RBF(gamma=0.05), kernels.Laplacian(gamma=0.4)], weights=[1, 3]),
        reference.weighted_sum([0.25, 0.75], [reference.rbf(0.05), reference.laplacian(0.4, norm=2)]),
    ),
    "learnable-mixture": (
        lambda: kernels.Mixture([kernels.RBF(gamma=0.05), kernels.Polynomial()], weights=[1, 1], learnable=True),
        reference.weighted_sum([0.5, 0.5], [reference.rbf(0.05), reference.polynomial(2, 1.0)]),
    ),
    "product": (
        lambda: kernels.RBF(gamma=0.2) * kernels.Polynomial(),
        reference.product(reference.rbf(0.2), reference.polynomial(2, 1.0)),
    ),
}
