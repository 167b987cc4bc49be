"""Kernel VICReg written once more, in numpy and float64, from the paper's equations and scikit-learn's kernels.

Nothing here imports kvicreg. Names follow the paper: K the Gram matrix, H the centring matrix, K_hat = H K H.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from sklearn.gaussian_process.kernels import RationalQuadratic as GPRationalQuadratic
from sklearn.metrics import pairwise

Array = np.ndarray
Gram = Callable[[Array, Array], Array]


def laplacian_l2(x: Array, y: Array, gamma: float) -> Array:
    return np.exp(-gamma * np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1)))


def rational_quadratic(x: Array, y: Array, gamma: float, alpha: float) -> Array:
    # scikit-learn: (1 + d^2 / (2 alpha l^2))^-alpha, hence l^2 = 1 / (2 gamma)
    return GPRationalQuadratic(length_scale=math.sqrt(0.5 / gamma), alpha=alpha)(x, y)


class Reference:
    """A kernel as a numpy function; the same at unit scale for p coordinates; how many directions it has."""

    def __init__(self, gram: Gram, at_unit_scale: Callable[[int], Gram], rank: Callable[[int], float]) -> None:
        self.gram, self.at_unit_scale, self.rank = gram, at_unit_scale, rank


def divided(gram: Gram, unit: Callable[[int], float], rank: Callable[[int], float]) -> Reference:
    """A kernel that is brought to unit scale by dividing it by its value there."""
    return Reference(gram, lambda p: lambda x, y: gram(x, y) / unit(p), rank)


def bounded(gram: Gram) -> Reference:
    return divided(gram, lambda p: 1.0, lambda p: math.inf)


LINEAR = divided(pairwise.linear_kernel, lambda p: p, lambda p: p)


def weighted_sum(weights: Sequence[float], members: Sequence[Reference]) -> Reference:
    """At unit scale: every member at its own unit scale, the weights sharing out 1."""

    def total(w: Sequence[float], grams: Sequence[Gram]) -> Gram:
        return lambda x, y: sum(wm * k(x, y) for wm, k in zip(w, grams, strict=True))

    shares = [w / sum(weights) for w in weights]
    return Reference(
        total(weights, [m.gram for m in members]),
        lambda p: total(shares, [m.at_unit_scale(p) for m in members]),
        lambda p: sum(m.rank(p) for m in members),
    )


def product(first: Reference, second: Reference) -> Reference:
    return Reference(
        lambda x, y: first.gram(x, y) * second.gram(x, y),
        lambda p: lambda x, y: first.at_unit_scale(p)(x, y) * second.at_unit_scale(p)(x, y),
        lambda p: math.inf,
    )


def polynomial(degree: int, coef0: float, gamma: float | None = None) -> Reference:
    scale = (lambda p: 1 / p) if gamma is None else (lambda p: gamma)
    return divided(
        lambda x, y: pairwise.polynomial_kernel(x, y, degree=degree, gamma=gamma, coef0=coef0),
        lambda p: (scale(p) * p + coef0) ** degree,
        # monomials of degree 1..d; without coef0 those of degree d alone
        lambda p: math.comb(p + degree, degree) - 1 if coef0 else math.comb(p + degree - 1, degree),
    )


def rbf(gamma: float) -> Reference:
    return bounded(lambda x, y: pairwise.rbf_kernel(x, y, gamma=gamma))


def laplacian(gamma: float, norm: int) -> Reference:
    if norm == 1:
        return bounded(lambda x, y: pairwise.laplacian_kernel(x, y, gamma=gamma))
    return bounded(lambda x, y: laplacian_l2(x, y, gamma))


def rq(gamma: float, alpha: float) -> Reference:
    return bounded(lambda x, y: rational_quadratic(x, y, gamma, alpha))


# --------------------------------------------------------------------------- the operator


def centring(b: int) -> Array:
    return np.eye(b) - np.ones((b, b)) / b


def double_centred(k: Array) -> Array:
    h = centring(len(k))
    return h @ k @ h


def spectrum(k: Array) -> Array:
    """Eigenvalues of K_hat / b, descending."""
    return np.linalg.eigvalsh(double_centred(k))[::-1] / len(k)


def off_diagonal(k: Array) -> Array:
    """The paper's second form of the squared HS norm: K_hat without its diagonal, over b^2."""
    k_hat = double_centred(k)
    return sum(k_hat[i, j] ** 2 for i in range(len(k)) for j in range(len(k)) if i != j) / len(k) ** 2


# --------------------------------------------------------------------------- the loss


def hinge(x: Array) -> Array:
    return np.maximum(x, 0) ** 2


def invariance(gram: Gram, x: Array, y: Array) -> float:
    """The trace distance of two views, with the three full Gram matrices of the paper."""
    return np.trace(gram(x, x) + gram(y, y) - 2 * gram(x, y)) / len(x)


def paper_terms(
    views: Sequence[Array],
    kernel: Reference,
    *,
    threshold: float = 1.0,
    eps: float = 1e-4,
    covariance: str = "norm",
    include_diagonal: bool = False,
) -> tuple[float, float, float]:
    """(invariance, variance, covariance) as printed; the mean of it over the pairs of views if there are more."""

    def variance(x: Array) -> float:
        return hinge(threshold - np.sqrt(np.maximum(spectrum(kernel.gram(x, x)), 0) + eps)).mean()

    def spread(x: Array) -> float:
        k = kernel.gram(x, x)
        squared = np.trace(double_centred(k) @ double_centred(k)) / len(k) ** 2 if include_diagonal else off_diagonal(k)
        return squared if covariance == "squared" else math.sqrt(max(squared, 0.0))

    return _over_pairs(views, lambda x, y: invariance(kernel.gram, x, y), variance, spread)


def scaled_terms(
    views: Sequence[Array],
    kernel: Reference,
    *,
    threshold: float = 1.5,
    eps: float = 1e-4,
    covariance: str = "norm",
    include_diagonal: bool = False,
) -> tuple[float, float, float]:
    """The same three in units of T = tr C + eps: |phi - phi'|^2 / mean T, r lambda_i / T, r |C|^2 / T^2."""
    b, p = views[0].shape
    gram = kernel.at_unit_scale(p)
    r = int(min(b - 1, kernel.rank(p)))

    def total(x: Array) -> float:
        return np.trace(double_centred(gram(x, x))) / b + eps

    def variance(x: Array) -> float:
        leading = np.maximum(spectrum(gram(x, x))[:r], 0)
        return hinge(threshold - np.sqrt(r * leading / total(x) + eps)).mean()

    def spread(x: Array) -> float:
        k = gram(x, x)
        k_hat = double_centred(k)
        squared = np.trace(k_hat @ k_hat) / b**2 if include_diagonal else off_diagonal(k)
        squared = squared * r / total(x) ** 2
        return squared if covariance == "squared" else math.sqrt(max(squared, 0.0))

    mean_total = np.mean([total(x) for x in views])
    return _over_pairs(views, lambda x, y: invariance(gram, x, y) / mean_total, variance, spread)


def _over_pairs(
    views: Sequence[Array],
    distance: Callable[[Array, Array], float],
    variance: Callable[[Array], float],
    spread: Callable[[Array], float],
) -> tuple[float, float, float]:
    pairs = [(distance(x, y), variance(x) + variance(y), spread(x) + spread(y)) for x, y in combinations(views, 2)]
    inv, var, cov = np.mean(pairs, axis=0)
    return float(inv), float(var), float(cov)
