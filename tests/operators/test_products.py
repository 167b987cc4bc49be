"""The hinge by matrix products, against eigenvalues in float64, on spectra that trainings have left."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from kvicreg import KernelVICRegLoss
from kvicreg.operators import products
from kvicreg.operators.products import PRODUCTS, fastest, hinge_sums

THRESHOLD, EPS = 1.5, 1e-4
SPECTRA = json.loads(Path(__file__).with_name("spectra.json").read_text())
"""Every fourth of the 256 eigenvalues at the end of a run, descending."""


@pytest.fixture(scope="module")
def basis():
    generator = torch.Generator().manual_seed(0)
    return torch.linalg.qr(torch.randn(512, 512, generator=generator, dtype=torch.float64))[0]


def saved(name, side=512):
    """The spectrum at this side, in units of its mean, with the zero that centring leaves."""
    values = np.interp(np.linspace(0, 1, side), np.linspace(0, 1, len(SPECTRA[name])), SPECTRA[name])
    values[-1] = 0
    return torch.from_numpy(values / values.mean())


@pytest.mark.parametrize("name", SPECTRA)
def test_value_and_gradient_are_those_of_the_eigenvalues(name, basis):
    values = saved(name)
    roots = (values + EPS).sqrt()
    expected = (THRESHOLD - roots).clamp_min(0).square().sum()
    slopes = -(THRESHOLD / roots - 1).clamp_min(0)
    points = basis * values.sqrt()  # A = Z Z^T: what a network sees is the gradient by Z
    matrix = (points @ points.T).float().requires_grad_()
    value = hinge_sums(matrix, THRESHOLD, EPS, "products")
    (gradient,) = torch.autograd.grad(value, matrix)
    assert value.item() == pytest.approx(expected.item(), rel=1e-3)
    right = basis * (slopes * values.sqrt())
    error = torch.linalg.matrix_norm(gradient.double() @ points - right) / torch.linalg.matrix_norm(right)
    assert error < 1e-2


def test_it_takes_as_many_products_as_it_says(monkeypatch):
    counted = []
    original = torch.Tensor.__matmul__

    def count(one, other):
        counted.append(one.shape)
        return original(one, other)

    monkeypatch.setattr(torch.Tensor, "__matmul__", count)
    hinge_sums(torch.eye(8), THRESHOLD, EPS, "products")
    assert len(counted) == PRODUCTS == 31


@pytest.mark.parametrize("spectrum", ["per-view", "shared"])
@pytest.mark.parametrize(("kernel", "shape"), [("rbf", (48, 8)), ("linear", (48, 8)), ("linear", (12, 40))])
@pytest.mark.parametrize("solver", ["products", "cpu", "auto"])
def test_the_loss_is_the_same_with_every_solver(solver, kernel, shape, spectrum):
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(shape, generator=generator)
    views = [(base + 0.3 * torch.randn(shape, generator=generator)).requires_grad_() for _ in range(2)]
    results = {}
    for each in ("eigh", solver):
        loss = KernelVICRegLoss(kernel, spectrum=spectrum, solver=each)(*views)
        results[each] = loss, torch.cat(torch.autograd.grad(loss, views))
    torch.testing.assert_close(results[solver][0], results["eigh"][0], rtol=2e-3, atol=0)
    right = results["eigh"][1]
    assert torch.linalg.vector_norm(results[solver][1] - right) < 0.02 * torch.linalg.vector_norm(right)


def test_the_papers_form_counts_the_directions_that_are_missing():
    views = torch.randn(2, 20, 4, generator=torch.Generator().manual_seed(2))
    one, other = (KernelVICRegLoss("linear", "paper", solver=s).terms(*views).variance for s in ("eigh", "products"))
    torch.testing.assert_close(one, other, rtol=2e-3, atol=0)


def test_the_fastest_is_one_that_is_accurate(monkeypatch):
    monkeypatch.setattr(products, "_timed", lambda value, leaf: (1.0, float(value().sum())))
    fastest.cache_clear()
    monkeypatch.setattr(products, "ROOTS", ((1.5, -0.5, 0.0),))  # one step of Newton and Schulz finds no root
    assert fastest(16, 1, torch.device("cpu"), torch.float32) == "eigh"
    fastest.cache_clear()


def test_an_eigenvalue_below_zero_counts_as_none():
    matrix = torch.diag(torch.tensor([-0.5, 1.0, 4.0])).requires_grad_()
    value = products.hinge_sums(matrix, 1.5, 1e-4, "eigh")
    value.backward()
    roots = torch.tensor([0.0, 1.0]).add(1e-4).sqrt()
    torch.testing.assert_close(value.detach(), (1.5 - roots).square().sum())
    torch.testing.assert_close(matrix.grad.diagonal()[:2], 1 - 1.5 / roots)  # as steep as at zero
    assert float(matrix.grad[2, 2]) == 0


def test_a_second_derivative_is_refused():
    matrix = torch.eye(6).requires_grad_()
    (gradient,) = torch.autograd.grad(hinge_sums(matrix, 2.0, EPS, "products"), matrix, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives of the hinge by products"):
        gradient.sum().backward()


@pytest.mark.parametrize("times", [(1, 3, 5, 7), (1, 5, 3, 7), (9, 7, 5, 3)])
def test_the_least_of_three_times_counts_and_the_first_does_not(monkeypatch, times):
    clock = iter([moment for i, seconds in enumerate(times) for moment in (10 * i, 10 * i + seconds)])
    monkeypatch.setattr(products.time, "perf_counter", lambda: next(clock))
    leaf = torch.tensor([2.0], requires_grad=True)
    assert products._timed(lambda: leaf * 3, leaf) == (3, 6.0)


def test_the_choice_of_a_solver_is_logged_once_with_the_times(monkeypatch, caplog):
    seconds = {"eigh": 0.002, "products": 0.001}
    monkeypatch.setattr(products, "_timed", lambda value, leaf: (seconds[value.args[-1]], float(value().sum())))
    fastest.cache_clear()
    with caplog.at_level("INFO", logger="kvicreg"):
        for _ in range(2):
            assert fastest(16, 1, torch.device("cpu"), torch.float32) == "products"
        fastest(16, 3, torch.device("cpu"), torch.float32)
    fastest.cache_clear()
    times = "on cpu (eigh 2.0 ms, products 1.0 ms)"
    assert caplog.messages == [
        f"solver auto: products for a matrix of 16 x 16 {times}",
        f"solver auto: products for 3 matrices of 16 x 16 {times}",
    ]


def test_auto_asks_for_the_fastest_of_these_matrices(monkeypatch):
    asked = []
    monkeypatch.setattr(products, "fastest", lambda *what: asked.append(what) or "eigh")
    matrices = torch.eye(4, dtype=torch.float64).expand(3, 4, 4)
    torch.testing.assert_close(hinge_sums(matrices, 1.5, 0.0, "auto"), torch.full((3,), 1.0, dtype=torch.float64))
    assert asked == [(4, 3, torch.device("cpu"), torch.float64)]
