"""Written gradients and halved products are those of the plain formulae."""

import pytest
import torch

from kvicreg import KernelVICRegLoss
from kvicreg.kernels import distances
from kvicreg.kernels.distances import MatchedDistances, TwoViewProjections, safe_sqrt, symmetric_product


def points(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(2, 7, 3), (10, 4), (2, 2, 9, 12)])
@pytest.mark.parametrize("weighted", [True, False])
def test_half_a_symmetric_product_is_all_of_it(monkeypatch, shape, weighted):
    monkeypatch.setattr(distances, "BLOCK", 4)
    x = points(*shape)
    weights = points(*shape[:-2], shape[-1]) if weighted else None
    expected = x @ x.mT if weights is None else torch.einsum("...ik,...k,...jk->...ij", x, weights, x)
    with torch.no_grad():
        torch.testing.assert_close(symmetric_product(x, weights), expected)
        columns = x.mT.contiguous().mT  # as LAPACK leaves eigenvectors
        torch.testing.assert_close(symmetric_product(columns, weights), expected)


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf", "laplacian", "rq"])
def test_blocks_change_neither_loss_nor_gradient(monkeypatch, kernel):
    def value_and_gradient():
        views = [v.clone().requires_grad_() for v in points(2, 11, 13)]
        loss = KernelVICRegLoss(kernel)(*views)
        return loss.detach(), *torch.autograd.grad(loss, views)

    expected = value_and_gradient()
    monkeypatch.setattr(distances, "BLOCK", 4)
    torch.testing.assert_close(value_and_gradient(), expected)


def test_gradients_of_matched_distances_and_projections(monkeypatch):
    monkeypatch.setattr(distances, "ROWS", 2)
    x, y, directions = points(5, 3).requires_grad_(), (2 * points(5, 3)).requires_grad_(), points(3, 4).requires_grad_()
    torch.testing.assert_close(MatchedDistances.apply(x, y), (x - y).square().sum(-1))
    assert torch.autograd.gradcheck(MatchedDistances.apply, (x, y))
    for ours, plain in zip(TwoViewProjections.apply(x, y, directions), (x @ directions, y @ directions), strict=False):
        torch.testing.assert_close(ours, plain)
    assert torch.autograd.gradcheck(TwoViewProjections.apply, (x, y, directions))


def test_safe_sqrt_has_no_gradient_at_zero_and_shows_nan():
    x = torch.tensor([0.0, 4.0, torch.nan], requires_grad=True)
    root = safe_sqrt(x)
    root.sum().backward()
    torch.testing.assert_close(root.detach(), torch.tensor([0.0, 2.0, torch.nan]), equal_nan=True)
    assert x.grad[:2].tolist() == [0.0, 0.25]
