"""Eigenvalues of symmetric matrices, differentiable where eigenvalues repeat or vanish.

One eigendecomposition serves the values and the gradient: with ``A = V diag(w) V^T`` the gradient of any function of
the eigenvalues is ``V diag(g) V^T``. It has no differences of eigenvalues in it, so repeated ones do no harm as long
as equal eigenvalues get equal g, which every symmetric function gives them.
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from threading import Barrier
from typing import Any

import torch
from torch import Tensor

from kvicreg.kernels.distances import symmetric_product
from kvicreg.kernels.tensors import is_concrete

__all__ = ["eigenvalues", "eigenvectors", "repeated_decompositions"]

WORKERS_FROM = 512
"""Matrices at least this large are decomposed side by side on a CPU; smaller ones are not worth waking a thread for."""
THREADS_FROM = 2048
"""Below this a decomposition is faster on one thread than on several: LAPACK spends the gain on waiting."""


def eigenvalues(matrix: Tensor) -> Tensor:
    """Eigenvalues of symmetric matrices ``(..., n, n)``, ascending, ``(..., n)``."""
    if not (torch.is_grad_enabled() and matrix.requires_grad):
        return _decompose(matrix, vectors=False)[0]
    values: Tensor = _Eigenvalues.apply(matrix)[0]
    return values


def eigenvectors(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices ``(..., n, n)``, without a gradient."""
    return _decompose(matrix, vectors=True)


class _Eigenvalues(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor) -> tuple[Tensor, Tensor]:
        return _decompose(matrix, vectors=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # or there would be zeros for the vectors
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> Tensor | None:
        (vectors,) = ctx.saved_tensors
        if grad is None:
            return None
        if is_concrete(grad) and grad.device.type == "cpu":
            # the directions that the hinge leaves alone are the largest eigenvalues: a tail of zeros
            used = (grad != 0).reshape(-1, grad.shape[-1]).any(0).nonzero()
            active = int(used[-1]) + 1 if len(used) else 0
            grad, vectors = grad[..., :active], vectors[..., :active]
        return symmetric_product(vectors, grad)


def _decompose(matrix: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor]:
    if not is_concrete(matrix):
        return _solve(matrix, vectors=vectors)
    if matrix.device.type == "mps":
        _say_once("this device has no symmetric eigensolver: kvicreg solves on the CPU and copies the result back")
        values, basis = _decompose(matrix.cpu(), vectors=vectors)
        return values.to(matrix.device), basis.to(matrix.device)
    try:
        threads = torch.get_num_threads()
        if matrix.device.type == "cpu" and threads > 1 and matrix.shape[-1] >= WORKERS_FROM:
            return _side_by_side(matrix.detach(), threads, vectors=vectors)
        return _solve(matrix, vectors=vectors)
    except torch.linalg.LinAlgError:
        return _rescued(matrix, vectors=vectors)


def _side_by_side(matrix: Tensor, threads: int, *, vectors: bool) -> tuple[Tensor, Tensor]:
    """Matrices ``(..., n, n)`` one by one, on this thread and on workers beside it."""
    n = matrix.shape[-1]
    parts = matrix.reshape(-1, n, n)
    # LAPACK leaves eigenvectors column by column
    values, bases = parts.new_empty(parts.shape[:-1]), torch.empty_like(parts).mT if vectors else parts
    lanes = min(len(parts), threads)
    each = threads // lanes if n >= THREADS_FROM else 1
    todo = iter(range(len(parts)))

    def lane() -> None:
        for i in todo:
            if vectors:
                torch.linalg.eigh(parts[i].mT, out=(values[i], bases[i]))
            else:
                torch.linalg.eigvalsh(parts[i].mT, out=values[i])

    beside = [_pool(os.getpid(), lanes - 1, each).submit(lane) for _ in range(lanes - 1)]
    torch.set_num_threads(each)
    try:
        lane()
    finally:
        torch.set_num_threads(threads)
    for other in beside:
        other.result()
    return values.reshape(matrix.shape[:-1]), bases.mT.reshape(matrix.shape).mT


def _rescued(matrix: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor]:
    """What a solver that gave up leaves to do: float64, then singular values; never an exception.

    A matrix that is not finite has eigenvalues nan, which the loss then shows.
    """
    _repeated.append(1)
    precise = matrix.detach().double().cpu()
    finite = precise.isfinite().all(-1).all(-1)
    asked = torch.where(finite[..., None, None], precise, torch.eye(matrix.shape[-1], dtype=precise.dtype))
    try:
        values, basis = _solve(asked, vectors=vectors)
    except torch.linalg.LinAlgError:
        # A + sI is positive definite, and its singular values are its eigenvalues
        shift = 2 * torch.linalg.matrix_norm(asked)[..., None] + torch.finfo(asked.dtype).tiny
        left, singular, _ = torch.linalg.svd(asked + shift[..., None] * torch.eye(asked.shape[-1], dtype=asked.dtype))
        values, basis = singular.flip(-1) - shift, left.flip(-1)
    values = values.masked_fill(~finite[..., None], torch.nan)
    _say_once("an eigendecomposition did not converge; it was repeated in float64")
    return values.to(matrix), basis.to(matrix)


_repeated: list[int] = []


def repeated_decompositions() -> int:
    """How many decompositions of this process had to be repeated because the first solver gave up."""
    return len(_repeated)


def _solve(matrix: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor]:
    # the transpose of a symmetric matrix is the same, and lies in memory as LAPACK wants it
    if vectors:
        values, basis = torch.linalg.eigh(matrix.mT)
        return values, basis
    return torch.linalg.eigvalsh(matrix.mT), matrix


@lru_cache(maxsize=8)
def _pool(process: int, workers: int, threads: int) -> ThreadPoolExecutor:
    """Workers of so many threads each; a forked process makes its own."""
    default = torch.get_num_threads()
    everyone = Barrier(workers + 1)

    def start() -> None:
        torch.get_num_threads()  # a thread takes the default when it is first asked: before it is given its own
        torch.set_num_threads(threads)

    pool = ThreadPoolExecutor(workers, "kvicreg-eigh", initializer=start)
    for _ in range(workers):
        pool.submit(everyone.wait)
    everyone.wait()
    torch.set_num_threads(default)  # the setting of a thread is also the default of later ones: put it back
    return pool


@cache
def _say_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)
