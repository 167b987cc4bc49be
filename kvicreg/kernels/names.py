"""Kernels by name, and mixtures as people write them: "rbf", "rbf+linear", "0.3*rbf+0.7*linear"."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any

from kvicreg.kernels.bandwidth import Gamma, Median, check_gamma
from kvicreg.kernels.base import Kernel
from kvicreg.kernels.composite import Mixture, Sum
from kvicreg.kernels.laplacian import Laplacian
from kvicreg.kernels.linear import Linear
from kvicreg.kernels.per_dimension import PerDimension
from kvicreg.kernels.polynomial import Polynomial
from kvicreg.kernels.rational_quadratic import RationalQuadratic
from kvicreg.kernels.rbf import RBF
from kvicreg.kernels.self_tuning import MULTIPLES, SelfTuning

__all__ = ["NAMES", "get", "make", "multi_rbf"]


def multi_rbf(gamma: Gamma = "median") -> Sum:
    """The mean of five RBF kernels of 1/4, 1/2, 1, 2 and 4 times the bandwidth: structure at several scales.

    Example:
        >>> len(multi_rbf().members())
        5
    """
    rule = check_gamma(gamma)

    def scaled(multiple: float) -> RBF:
        if isinstance(rule, Median):
            return RBF(Median(multiple=rule.multiple * multiple, momentum=rule.momentum, floor=rule.floor))
        return RBF(rule / multiple)

    return Sum([scaled(multiple) for multiple in MULTIPLES], [1 / len(MULTIPLES)] * len(MULTIPLES))


NAMES: dict[str, Callable[..., Kernel]] = {
    "linear": Linear,
    "polynomial": Polynomial,
    "rbf": RBF,
    "laplacian": Laplacian,
    "rational_quadratic": RationalQuadratic,
    "rq": RationalQuadratic,
    "multi_rbf": multi_rbf,
    "self_tuning": SelfTuning,
}
"""The kernels that have a name."""


def get(kernel: str | Kernel) -> Kernel:
    """The kernel or mixture of that name, with default settings; a `Kernel` is returned as it is.

    Example:
        >>> get("rq")
        RationalQuadratic(
          alpha=1
          (gamma): Median(multiple=1, momentum=0)
        )
        >>> get("0.3*linear+0.7*polynomial").weights
        [0.3, 0.7]
    """
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        raise TypeError(f"kernel must be a name or a kernels.Kernel, got {type(kernel).__name__}")
    return make(kernel)


def make(expression: str, *, learnable: bool = False, per_dimension: bool = False, **options: Any) -> Kernel:
    """The kernel that an expression names, with options.

    Args:
        expression: a name, or names joined by "+", each with a share before it or not: a mixture.
        learnable: learn the shares of the mixture.
        per_dimension: with a scale for each coordinate, see `PerDimension`.
        options: settings (gamma, degree, ...) of the kernels that have them; one that none has is an error.
    """
    if learnable and per_dimension:
        raise ValueError("the shares of a mixture can't be learnt with a scale for each dimension; choose one of them")
    members: list[tuple[float, Kernel]] = []
    unused = set(options)
    for term in expression.split("+"):
        share, _, name = term.rpartition("*")
        maker = _maker(name.strip(), expression)
        taken = {key: value for key, value in options.items() if key in inspect.signature(maker).parameters}
        unused -= set(taken)
        members.append((_share(share, expression), maker(**taken)))
    if unused:
        raise ValueError(f"the {expression} kernel has no {', '.join(sorted(unused))}")
    if len(members) == 1 and not (learnable and isinstance(members[0][1], Sum)):
        if learnable:
            raise ValueError(
                f"the {expression} kernel is no mixture, so it has no shares to learn; try {expression}+rbf"
            )
        kernel = members[0][1]
    else:
        whole = Sum([kernel for _, kernel in members], [share for share, _ in members]).members()
        kernel = Mixture([k for _, k in whole], [float(w) for w, _ in whole], learnable=learnable)
    return PerDimension(kernel) if per_dimension else kernel


def _maker(said: str, expression: str) -> Callable[..., Kernel]:
    name = said.lower().replace("-", "_")
    if name in NAMES:
        return NAMES[name]
    close = difflib.get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    where = "" if said == expression else f" in {expression!r}"
    raise ValueError(f"unknown kernel {said!r}{where}: {hint}the kernels are {', '.join(NAMES)}")


def _share(said: str, expression: str) -> float:
    try:
        return float(said) if said.strip() else 1.0
    except ValueError:
        raise ValueError(f"kernel {expression!r}: {said.strip()!r} is no share; write 0.3*rbf+0.7*linear") from None
