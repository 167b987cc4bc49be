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

from kvicreg.kernels.pairs import is_concrete

__all__ = ["eigenvalues"]

SIDE_BY_SIDE_FROM = 384
"""Matrices at least this large are decomposed one per thread on a CPU: LAPACK alone uses several threads poorly."""


def eigenvalues(matrix: Tensor) -> Tensor:
    """Eigenvalues of symmetric matrices ``(..., n, n)``, ascending, ``(..., n)``."""
    if not (torch.is_grad_enabled() and matrix.requires_grad):
        return _decompose(matrix, vectors=False)[0]
    values: Tensor = _Eigenvalues.apply(matrix)[0]
    return values


class _Eigenvalues(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor) -> tuple[Tensor, Tensor]:
        return _decompose(matrix, vectors=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Tensor:
        (vectors,) = ctx.saved_tensors
        if is_concrete(grad) and grad.device.type == "cpu":
            # the directions that the hinge leaves alone are the largest eigenvalues: a tail of zeros
            used = (grad != 0).reshape(-1, grad.shape[-1]).any(0).nonzero()
            active = int(used[-1]) + 1 if len(used) else 0
            grad, vectors = grad[..., :active], vectors[..., :active]
        product: Tensor = (vectors * grad.unsqueeze(-2)) @ vectors.mT
        return product


def _decompose(matrix: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor]:
    if not is_concrete(matrix):
        return _solve(matrix, vectors=vectors)
    if matrix.device.type == "mps":
        _say_once("this device has no symmetric eigensolver: kvicreg solves on the CPU and copies the result back")
        values, basis = _decompose(matrix.cpu(), vectors=vectors)
        return values.to(matrix.device), basis.to(matrix.device)
    try:
        parts = matrix.shape[0] if matrix.dim() == 3 else 1
        threads = torch.get_num_threads()
        if matrix.device.type == "cpu" and parts > 1 and threads > 1 and matrix.shape[-1] >= SIDE_BY_SIDE_FROM:
            pool = _pool(os.getpid(), min(parts, threads), threads)
            solved = list(pool.map(lambda m: _solve(m, vectors=vectors), matrix.detach()))
            return torch.stack([s[0] for s in solved]), torch.stack([s[1] for s in solved])
        return _solve(matrix, vectors=vectors)
    except torch.linalg.LinAlgError:
        _say_once("an eigendecomposition did not converge; it was repeated in float64")
        values, basis = _solve(matrix.double().cpu(), vectors=vectors)
        return values.to(matrix), basis.to(matrix)


def _solve(matrix: Tensor, *, vectors: bool) -> tuple[Tensor, Tensor]:
    if vectors:
        values, basis = torch.linalg.eigh(matrix)
        return values, basis
    return torch.linalg.eigvalsh(matrix), matrix


@lru_cache(maxsize=1)
def _pool(process: int, workers: int, threads: int) -> ThreadPoolExecutor:
    """Workers that share the process's threads among them; a forked process makes its own."""
    pool = ThreadPoolExecutor(
        workers, "kvicreg-eigh", initializer=torch.set_num_threads, initargs=(threads // workers,)
    )
    everyone = Barrier(workers + 1)
    for _ in range(workers):
        pool.submit(everyone.wait)
    everyone.wait()  # each worker has started and set its threads
    torch.set_num_threads(threads)  # the setting above is a thread's own, but also the default of later threads
    return pool


@cache
def _say_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)
