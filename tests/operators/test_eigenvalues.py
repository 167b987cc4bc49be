"""One eigendecomposition for values and gradient, whatever happens to it."""

import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kvicreg import operators
from kvicreg.operators import eigenvalues as module
from kvicreg.operators.eigenvalues import count_repeated, eigenvalues


def symmetric(*shape, dtype=torch.float64):
    a = torch.randn(*shape, shape[-1], generator=torch.Generator().manual_seed(0), dtype=dtype)
    return a + a.mT


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
@pytest.mark.parametrize("grad", [True, False])
def test_values_are_numpys_ascending(shape, grad):
    matrix = symmetric(*shape).requires_grad_(grad)
    np.testing.assert_allclose(eigenvalues(matrix).detach().numpy(), np.linalg.eigvalsh(matrix.detach().numpy()))


@pytest.mark.parametrize("function", [torch.sum, lambda w: w.square().sum(), lambda w: w.exp().sum()])
def test_gradient_of_a_symmetric_function_at_repeated_eigenvalues(function):
    matrix = (2 * torch.eye(4, dtype=torch.float64)).requires_grad_()
    function(eigenvalues(matrix)).backward()
    slope = torch.func.grad(function)(torch.full((4,), 2.0, dtype=torch.float64))
    torch.testing.assert_close(matrix.grad, torch.diag(slope))


def test_gradient_of_part_of_the_spectrum():
    # a hinge leaves the large eigenvalues alone: their zero gradient must not disturb the others
    matrix = symmetric(2, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: eigenvalues((m + m.mT) / 2)[..., :3].square().sum(), (matrix,))
    assert torch.autograd.gradcheck(lambda m: eigenvalues((m + m.mT) / 2)[..., 3:].square().sum(), (matrix,))
    assert torch.autograd.gradcheck(lambda m: eigenvalues((m + m.mT) / 2)[0, 2:4].square().sum(), (matrix,))
    assert torch.autograd.gradcheck(lambda m: eigenvalues((m + m.mT) / 2)[..., 1::2].square().sum(), (matrix,))


def test_side_by_side_is_the_same(monkeypatch):
    matrix = symmetric(3, 7)
    expected = np.linalg.eigvalsh(matrix.numpy())
    monkeypatch.setattr(module, "WORKERS_FROM", 2)
    monkeypatch.setattr(module, "_solve", None)  # which would take one after the other
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        leaf = matrix.clone().requires_grad_()
        values = eigenvalues(leaf)
        np.testing.assert_allclose(values.detach().numpy(), expected)
        values.square().sum().backward()
        torch.testing.assert_close(leaf.grad, 2 * matrix)  # the gradient of tr A^2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_decomposition_that_fails_is_repeated_in_float64(monkeypatch):
    solve, seen = module._solve, []

    def refuses_float32(matrix, *, vectors):
        seen.append(matrix.dtype)
        if matrix.dtype == torch.float32:
            raise torch.linalg.LinAlgError("did not converge")
        return solve(matrix, vectors=vectors)

    monkeypatch.setattr(module, "_solve", refuses_float32)
    matrix = symmetric(4, dtype=torch.float32)
    with count_repeated() as outer, count_repeated() as inner, pytest.warns(RuntimeWarning, match="in float64"):
        values = eigenvalues(matrix)
    assert outer.repeated == inner.repeated == 1
    assert seen == [torch.float32, torch.float64]
    assert values.dtype == torch.float32
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(matrix.double().numpy()), rtol=1e-5)
    leaf = matrix.clone().requires_grad_()
    with pytest.warns(RuntimeWarning, match="in float64"):
        eigenvalues(leaf).square().sum().backward()
    torch.testing.assert_close(leaf.grad, 2 * matrix)  # the gradient of tr A^2


@pytest.mark.parametrize(
    ("side", "count", "threads", "expected"), [(4, 3, 2, (2, 1)), (8, 1, 6, (1, 6)), (8, 2, 7, (2, 3))]
)
def test_large_matrices_share_out_the_threads(monkeypatch, side, count, threads, expected):
    used = []
    monkeypatch.setattr(module, "THREADS_FROM", 8)
    monkeypatch.setattr(
        module,
        "run_side_by_side",
        lambda task, n, *, workers, threads: (used.append((workers, threads)), [task(i) for i in range(n)]),
    )
    matrix = symmetric(count, side)
    for vectors in (False, True):
        values, basis = module._side_by_side(matrix, threads, vectors=vectors)
        np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(matrix.numpy()))
    torch.testing.assert_close(basis * values.unsqueeze(-2) @ basis.mT, matrix)
    assert used == [expected] * 2


@pytest.mark.parametrize("vectors", [False, True])
def test_where_float64_fails_too_singular_values_are_left(monkeypatch, vectors):
    def refuses(matrix, *, vectors):
        raise torch.linalg.LinAlgError("did not converge")

    monkeypatch.setattr(module, "_solve", refuses)
    matrix = symmetric(2, 5)
    with pytest.warns(RuntimeWarning, match="in float64"):
        values, basis = module._decompose(matrix, vectors=vectors)
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(matrix.numpy()))
    torch.testing.assert_close(basis * values.unsqueeze(-2) @ basis.mT, matrix)


def test_only_what_is_not_finite_has_eigenvalues_that_are_not():
    matrix = symmetric(2, 3, 4)
    matrix[1, 2, 0, 0] = torch.nan
    with pytest.warns(RuntimeWarning, match="in float64"):
        values = module._rescued(matrix, vectors=True)[0]
    assert values[1, 2].isnan().all()
    values[1, 2] = 0
    matrix[1, 2] = 0
    np.testing.assert_allclose(values.numpy(), np.linalg.eigvalsh(matrix.numpy()), atol=1e-12)


def test_what_was_repeated_in_float64_has_the_type_of_the_matrix():
    with pytest.warns(RuntimeWarning, match="in float64"):
        values, basis = module._rescued(symmetric(3).float(), vectors=True)
    assert (values.dtype, basis.dtype) == (torch.float32, torch.float32)


def test_the_gradient_of_eigenvalues_is_not_differentiated_by_what_it_is_multiplied_with():
    leaf, cotangent = symmetric(3).requires_grad_(), torch.ones(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(eigenvalues(leaf), leaf, cotangent, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives of eigenvalues"):
        torch.autograd.grad(gradient.sum(), cotangent, allow_unused=True)


def test_a_forked_process_has_workers_of_its_own(monkeypatch):
    asked = []

    def pool(process, workers, threads):
        asked.append((process, workers, threads))
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr(operators.threads, "_pool", pool)
    done = []
    operators.threads.run_side_by_side(done.append, 5, workers=2, threads=3)
    assert (sorted(done), asked) == ([0, 1, 2, 3, 4], [(os.getpid(), 2, 3)])


def test_the_operator_for_torch_compile_has_the_same_values_and_gradient():
    matrix = symmetric(2, 4)
    leaf = matrix.clone().requires_grad_()
    values, vectors = module._traced_eigenvalues(leaf)
    torch.testing.assert_close(values, eigenvalues(matrix))
    torch.testing.assert_close(vectors @ torch.diag_embed(values.detach()) @ vectors.mT, matrix)
    (gradient,) = torch.autograd.grad(values.square().sum(), leaf, create_graph=True)
    torch.testing.assert_close(gradient.detach(), 2 * matrix)
    with pytest.raises(RuntimeError, match="eigenvalues"):
        gradient.sum().backward()
    shapes = [part.shape for part in module._traced_eigenvalues(matrix.to("meta"))]
    assert shapes == [(2, 4), (2, 4, 4)]


class NoSolver(str):
    """The CPU, under the name of a device that has no symmetric eigensolver."""

    type = "mps"


@pytest.mark.parametrize("vectors", [False, True])
def test_the_warning_of_a_device_without_a_solver_names_the_line_that_asked(vectors):
    elsewhere = SimpleNamespace(device=NoSolver("cpu"), cpu=lambda: symmetric(5))
    with pytest.warns(RuntimeWarning, match="solves on the CPU and copies the result back") as warned:
        module._decompose(elsewhere, vectors=vectors)
    assert [record.filename for record in warned] == [__file__]


@pytest.mark.parametrize("vectors", [False, True])
def test_a_device_without_a_solver_gets_its_answer_from_the_cpu_and_says_so(vectors):
    matrix = symmetric(5)
    elsewhere = SimpleNamespace(device=NoSolver("cpu"), cpu=lambda: matrix)
    with pytest.warns(RuntimeWarning, match="solves on the CPU and copies the result back"):
        values, basis = module._decompose(elsewhere, vectors=vectors)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(matrix))
    if vectors:
        torch.testing.assert_close(basis * values @ basis.mT, matrix)
