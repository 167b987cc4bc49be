"""The hinge on the roots of eigenvalues by matrix products alone, for devices on which eigensolvers are slow.

With ``M = A + eps I``, ``S = M^(1/2)`` and ``P`` the projection onto eigenvalues of S below the threshold t,

    sum_i [t - sqrt(lambda_i + eps)]_+^2 = tr (t I - S)^2 P = <t^2 I - 2 t S + M, P>
    its gradient by A                    = -(t S^-1 - I) P

S and its inverse come from a coupled iteration, P from the sign of ``t I - S``: both apply odd polynomials of degree 5
to singular values until all are 1. Their coefficients are the best for an interval that shrinks from step to step (in
the spirit of Polar Express, Amsel et al., 2025), found by linear programming. Directions with less than a
40,000th of the norm of A are left unresolved, and so are thresholds met by less than 3 % of the largest root.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal

import torch
from torch import Tensor

from kvicreg.kernels.tensors import first_order_only
from kvicreg.operators.eigenvalues import eigenvalues

__all__ = ["PRODUCTS", "Solver", "fastest", "hinge_sums"]

Solver = Literal["eigh", "cpu", "products"]
Quintics = tuple[tuple[float, float, float], ...]
ROOTS: Quintics = (
    (8.298717, -24.4306, 18.090393),
    (3.915224, -2.921132, 0.559224),
    (3.174603, -2.380433, 0.497826),
    (2.189462, -1.56722, 0.407887),
    (1.882279, -1.258064, 0.375807),
)
"""For singular values from 0.005 to 1, which are within 4e-4 of 1 in the end."""
SIGNS: Quintics = (
    (7.36253, -20.743401, 15.160555),
    (2.917539, -2.182409, 0.47553),
    (2.04631, -1.429475, 0.393353),
    (1.87638, -1.251532, 0.375153),
)
"""From 0.03 to 1, within 3e-5."""
PRODUCTS = 2 + 4 * (len(ROOTS) - 1) + 3 * len(SIGNS) + 1
"""How many products of n x n matrices it takes, for value and gradient together."""
TOLERANCE = 0.01
"""How far from an eigensolver's value `fastest` lets a solver be, relative to it."""


def hinge_sums(matrix: Tensor, threshold: float, eps: float, solver: str) -> Tensor:
    """``sum_i [threshold - sqrt(lambda_i + eps)]_+^2`` of positive semi-definite matrices ``(..., n, n)``."""
    if solver == "auto":
        side = matrix.shape[-1]
        solver = fastest(side, matrix.numel() // side**2, matrix.device, matrix.dtype)
    if solver == "products":
        sums: Tensor = _Hinge.apply(matrix, threshold, eps)
        return sums
    values = eigenvalues(matrix.cpu() if solver == "cpu" else matrix)
    floored = values + (values.detach().clamp_min(0) - values.detach())
    hinges: Tensor = (threshold - (floored + eps).sqrt()).clamp_min(0).square().sum(-1)
    return hinges.to(matrix.device)


class _Hinge(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, threshold: float, eps: float) -> Tensor:
        identity = torch.eye(matrix.shape[-1], device=matrix.device, dtype=matrix.dtype)
        shifted = matrix + eps * identity
        size = torch.linalg.matrix_norm(shifted, keepdim=True)
        root, inverse = _roots(shifted / size, identity)
        root, inverse = root * size.sqrt(), inverse * size.rsqrt()
        reach = (size.sqrt() - threshold).clamp_min(threshold)  # no eigenvalue of the difference is larger
        below = (_sign((threshold * identity - root) / reach, identity) + identity) / 2
        slope = _symmetric((threshold * inverse - identity) @ below)
        ctx.save_for_backward(matrix, slope)
        sums: Tensor = ((threshold**2 * identity - 2 * threshold * root + shifted) * below).sum((-2, -1))
        return sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        matrix, slope = ctx.saved_tensors
        return first_order_only(slope * -grad[..., None, None], "the hinge by products", grad, matrix), None, None


def _roots(matrix: Tensor, identity: Tensor) -> tuple[Tensor, Tensor]:
    """``M^(1/2)`` and ``M^(-1/2)`` of matrices whose eigenvalues are at most 1."""
    root, inverse = matrix, identity
    for step, (a, b, c) in enumerate(ROOTS):
        both = inverse @ root if step else root
        factor = a * identity + b * both + c * (both @ both)
        root = _symmetric(root @ factor)
        inverse = _symmetric(factor @ inverse) if step else factor
    return root, inverse


def _sign(matrix: Tensor, identity: Tensor) -> Tensor:
    """The matrix with the same eigenvectors whose eigenvalues, at most 1 in size, are replaced by their signs."""
    for a, b, c in SIGNS:
        square = matrix @ matrix
        matrix = _symmetric(matrix @ (a * identity + b * square + c * (square @ square)))
    return matrix


def _symmetric(matrix: Tensor) -> Tensor:
    return (matrix + matrix.mT) / 2


@lru_cache
def fastest(side: int, count: int, device: torch.device, dtype: torch.dtype) -> Solver:
    """The solver that is fastest on this device for `count` matrices of this side, timed once, and accurate.

    What is timed is value and gradient of the hinge of random matrices with a spectrum like that of embeddings.
    """
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(side, side, generator=generator))[0]
    values = torch.exp(-5 * torch.linspace(0, 1, side))
    matrix = (basis * (values * side / values.sum())) @ basis.mT
    matrices = matrix.to(device, dtype).expand(count, side, side).clone().requires_grad_()
    solvers: tuple[Solver, ...] = ("eigh", "products") if device.type == "cpu" else ("eigh", "cpu", "products")
    results = {solver: _timed(partial(hinge_sums, matrices, 1.5, 1e-4, solver), matrices) for solver in solvers}
    right = results["eigh"][1]
    accurate = {s: seconds for s, (seconds, value) in results.items() if abs(value - right) <= TOLERANCE * right}
    best = min(accurate, key=lambda solver: accurate[solver])
    times = ", ".join(f"{solver} {1e3 * seconds:.1f} ms" for solver, (seconds, _) in results.items())
    what = f"{count} matrices of {side} x {side}" if count > 1 else f"a matrix of {side} x {side}"
    logging.getLogger("kvicreg").info("solver auto: %s for %s on %s (%s)", best, what, device.type, times)
    return best


def _timed(value: Callable[[], Tensor], leaf: Tensor) -> tuple[float, float]:
    """The least seconds of three, after one that does not count, and the value."""
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        total = value().sum()
        torch.autograd.grad(total, leaf)
        number = float(total.detach())  # waits for the device
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:]), number
