"""Eigenvalues of symmetric matrices, differentiable where eigenvalues repeat or vanish.

One eigendecomposition serves the values and the gradient: with ``A = V diag(w) V^T`` the gradient of any function of
the eigenvalues is ``V diag(g) V^T``. It has no differences of eigenvalues in it, so repeated ones do no harm as long
as equal eigenvalues get equal g, which every symmetric function gives them. Second derivatives would have: they are
refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

from kvicreg.kernels.distances import symmetric_product
from kvicreg.kernels.tensors import first_order_only, is_concrete, second_derivative_message
from kvicreg.operators.threads import run_side_by_side, threads_are_ours

__all__ = ["DecompositionCount", "count_repeated", "eigenvalues", "eigenvectors"]

WORKERS_FROM = 512
"""Matrices at least this large are decomposed side by side on a CPU; smaller ones are not worth waking a thread for."""
THREADS_FROM = 2048
"""Below this a decomposition is faster on one thread than on several: LAPACK spends the gain on waiting."""


def eigenvalues(matrix: Tensor) -> Tensor:
    """Eigenvalues of symmetric matrices ``(..., n, n)``, ascending, ``(..., n)``."""
    if torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active():
        traced: Tensor = _traced_eigenvalues(matrix)[0]
        return traced
    if is_concrete() and not (torch.is_grad_enabled() and matrix.requires_grad):
        return _decompose(matrix, vectors=False)[0]
    values: Tensor = _Eigenvalues.apply(matrix)[0]
    return values


def eigenvectors(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices ``(..., n, n)``, without a gradient."""
    return _decompose(matrix, vectors=True)


class _Eigenvalues(torch.autograd.Function):
    """Eigenvalues, and eigenvectors that are not differentiable; for first derivatives, forward and backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor) -> tuple[Tensor, Tensor]:
        return _decompose(matrix, vectors=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # or there would be zeros for the vectors
        ctx.save_for_backward(inputs[0], output[1])
        ctx.save_for_forward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> Tensor | None:
        matrix, vectors = ctx.saved_tensors
        if grad is None:
            return None
        with torch.no_grad():
            if is_concrete() and grad.device.type == "cpu":
                # the directions that the hinge leaves alone are the largest eigenvalues: a tail of zeros
                used = (grad != 0).reshape(-1, grad.shape[-1]).any(0).nonzero()
                active = int(used[-1]) + 1 if len(used) else 0
                product = symmetric_product(vectors[..., :active], grad[..., :active])
            else:
                product = symmetric_product(vectors, grad)
        return first_order_only(product, "eigenvalues", grad, matrix)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> tuple[Tensor, None]:
        matrix, vectors = ctx.saved_tensors
        with torch.no_grad():
            change = (vectors * (tangent @ vectors)).sum(-2)
        return first_order_only(change, "eigenvalues", tangent, matrix), None


# torch.compile can't trace `_Eigenvalues`, which has a rule for forward mode. Two operators that it need not look into
# do the same. Inside torch.func it leaves the compiled graph and takes `_Eigenvalues`.


@torch.library.custom_op("kvicreg::eigenvalues", mutates_args=())
def _traced_eigenvalues(matrix: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = _decompose(matrix, vectors=True)
    return values, vectors.contiguous()


@torch.library.custom_op("kvicreg::eigenvalues_gradient", mutates_args=())
def _traced_gradient(grad: Tensor, vectors: Tensor, matrix: Tensor) -> Tensor:
    return symmetric_product(vectors, grad)  # the matrix is there to be refused a derivative


@_traced_eigenvalues.register_fake
def _(matrix: Tensor) -> tuple[Tensor, Tensor]:
    return matrix.new_empty(matrix.shape[:-1]), matrix.new_empty(matrix.shape)


@_traced_gradient.register_fake
def _(grad: Tensor, vectors: Tensor, matrix: Tensor) -> Tensor:
    return matrix.new_empty(matrix.shape)


def _save(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1], inputs[0])


def _pull(ctx: Any, grad: Tensor, _: Tensor) -> Tensor:
    vectors, matrix = ctx.saved_tensors
    product: Tensor = _traced_gradient(grad, vectors.detach(), matrix)
    return product


def _refuse(ctx: Any, grad: Tensor) -> None:
    raise RuntimeError(second_derivative_message("eigenvalues"))


_traced_eigenvalues.register_autograd(_pull, setup_context=_save)
_traced_gradient.register_autograd(_refuse)


def _decompose(matrix: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor]:
    if not is_concrete():
        return _solve(matrix, vectors=vectors)
    if matrix.device.type == "mps":
        warnings.warn(
            "this device has no symmetric eigensolver: kvicreg solves on the CPU and copies the result back",
            RuntimeWarning,
            stacklevel=2,
        )
        values, basis = _decompose(matrix.cpu(), vectors=vectors)
        return values.to(matrix.device), basis.to(matrix.device)
    try:
        threads = torch.get_num_threads()
        if matrix.device.type == "cpu" and threads > 1 and matrix.shape[-1] >= WORKERS_FROM and threads_are_ours():
            return _side_by_side(matrix.detach(), threads, vectors=vectors)
        return _solve(matrix, vectors=vectors)
    except torch.linalg.LinAlgError:
        return _rescued(matrix, vectors=vectors)


def _side_by_side(matrix: Tensor, threads: int, *, vectors: bool) -> tuple[Tensor, Tensor]:
    """Matrices ``(..., n, n)`` one by one, on workers beside this thread."""
    n = matrix.shape[-1]
    parts = matrix.reshape(-1, n, n)
    # LAPACK leaves eigenvectors column by column
    values, bases = parts.new_empty(parts.shape[:-1]), torch.empty_like(parts).mT if vectors else parts

    def solve(i: int) -> None:
        if vectors:
            torch.linalg.eigh(parts[i].mT, out=(values[i], bases[i]))
        else:
            torch.linalg.eigvalsh(parts[i].mT, out=values[i])

    workers = min(len(parts), threads)
    each = threads // workers if n >= THREADS_FROM else 1
    run_side_by_side(solve, len(parts), workers=workers, threads=each)
    return values.reshape(matrix.shape[:-1]), bases.mT.reshape(matrix.shape).mT


def _rescued(matrix: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor]:
    """What a solver that gave up leaves to do: float64, then singular values; never an exception.

    A matrix that is not finite has eigenvalues nan, which the loss then shows.
    """
    for counter in _counters.get():
        counter.repeated += 1
    precise = matrix.detach().double().cpu()
    finite = precise.isfinite().all(-1).all(-1)
    solvable = torch.where(finite[..., None, None], precise, torch.eye(matrix.shape[-1], dtype=precise.dtype))
    try:
        values, basis = _solve(solvable, vectors=vectors)
    except torch.linalg.LinAlgError:
        # A + sI is positive definite, and its singular values are its eigenvalues
        shift = 2 * torch.linalg.matrix_norm(solvable)[..., None] + torch.finfo(solvable.dtype).tiny
        identity = torch.eye(solvable.shape[-1], dtype=solvable.dtype)
        left, singular, _ = torch.linalg.svd(solvable + shift[..., None] * identity)
        values, basis = singular.flip(-1) - shift, left.flip(-1)
    values = values.masked_fill(~finite[..., None], torch.nan)
    warnings.warn("an eigendecomposition did not converge; it was repeated in float64", RuntimeWarning, stacklevel=2)
    return values.to(matrix), basis.to(matrix)


def _solve(matrix: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor]:
    # the transpose of a symmetric matrix is the same, and lies in memory as LAPACK wants it
    if vectors:
        values, basis = torch.linalg.eigh(matrix.mT)
        return values, basis
    return torch.linalg.eigvalsh(matrix.mT), matrix


class DecompositionCount:
    """How many decompositions had to be repeated because the first solver gave up."""

    repeated = 0


_counters: ContextVar[tuple[DecompositionCount, ...]] = ContextVar("counters", default=())


@contextmanager
def count_repeated() -> Iterator[DecompositionCount]:
    """Count the decompositions that are repeated inside the ``with`` block, in this thread.

    Example:
        >>> with count_repeated() as count:
        ...     _ = eigenvalues(torch.eye(3))
        >>> count.repeated
        0
    """
    counter = DecompositionCount()
    token = _counters.set((*_counters.get(), counter))
    try:
        yield counter
    finally:
        _counters.reset(token)
