"""Written gradients and halved products are those of the plain formulae."""

import gc
import weakref

import pytest
import torch

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.kernels import distances
from kvicreg.kernels.distances import matched_distances, safe_sqrt, symmetric_product, two_view_distances
from kvicreg.kernels.pairs import AllPairs, ViewPairs
from kvicreg.operators import covariance_operator


def points(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("shape", [(2, 7, 3), (10, 4), (2, 2, 9, 12), (2, 7, 0)])
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


def test_gradients_of_matched_distances(monkeypatch):
    monkeypatch.setattr(distances, "ROWS", 2)
    x, y = points(5, 3).requires_grad_(), (2 * points(5, 3)).requires_grad_()
    torch.testing.assert_close(matched_distances(x, y), (x - y).square().sum(-1))
    assert torch.autograd.gradcheck(matched_distances, (x, y))


def test_distances_of_two_views_are_those_within_and_across():
    views = points(2, 5, 3)
    first, second = (view.clone().requires_grad_() for view in views)
    within, across = two_view_distances(first, second)
    torch.testing.assert_close(within, torch.cdist(views, views).square())
    torch.testing.assert_close(across, (views[0] - views[1]).square().sum(-1))
    assert torch.autograd.gradcheck(two_view_distances, (first, second))
    assert torch.autograd.gradgradcheck(two_view_distances, (first, second))


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_are_as_precise_far_from_the_origin(create_graph):
    views, weights = (points(2, 6, 3) + 1e4).float(), points(2, 6, 6)

    def gradient(dtype):
        first, second = (view.to(dtype).requires_grad_() for view in views)
        within, across = two_view_distances(first, second)
        total = (within * weights.to(dtype)).sum() + across.sum()
        return torch.stack(torch.autograd.grad(total, (first, second), create_graph=create_graph)).double().detach()

    torch.testing.assert_close(gradient(torch.float32), gradient(torch.float64), rtol=1e-4, atol=1e-4)


def test_safe_sqrt_has_no_gradient_at_zero_and_shows_nan():
    x = torch.tensor([0.0, 4.0, torch.nan], requires_grad=True)
    root = safe_sqrt(x)
    root.sum().backward()
    torch.testing.assert_close(root.detach(), torch.tensor([0.0, 2.0, torch.nan]), equal_nan=True)
    assert x.grad[:2].tolist() == [0.0, 0.25]


def test_a_cotangent_need_not_be_symmetric():
    x = points(6, 3).requires_grad_()
    weights = points(6, 6)
    for quantity in ("inner", "squared_distance", "distance", "l1_distance"):
        assert torch.autograd.gradcheck(lambda z, q=quantity: (getattr(AllPairs(z), q) * weights).sum(), (x,))


@pytest.mark.parametrize("order", [("within", "across"), ("across", "within")])
def test_views_share_one_pass_in_any_order_of_use(order):
    pairs = ViewPairs(points(2, 5, 3).requires_grad_().unbind())
    of = {"within": pairs.within, "across": pairs.across}
    first, second = (of[name].squared_distance for name in order)
    assert first.grad_fn is second.grad_fn


def test_views_leave_nothing_for_the_garbage_collector():
    pairs = ViewPairs(points(2, 5, 3).unbind())
    matrix = weakref.ref(pairs.within.squared_distance)
    gc.disable()
    try:
        del pairs
        assert matrix() is None
    finally:
        gc.enable()


def test_one_outlier_does_not_hide_the_rest_in_float32():
    generator = torch.Generator().manual_seed(0)
    z = 1e-3 * torch.randn(64, 16, generator=generator, dtype=torch.float64)
    z[17] = 28 / 4
    precise = float(covariance_operator(z, kernels.RBF("median")).effective_rank())
    assert precise > 20
    assert float(covariance_operator(z.float(), kernels.RBF("median")).effective_rank()) == pytest.approx(
        precise, rel=1e-3
    )
    views = torch.stack([z, z + 1e-4])
    precise = covariance_operator(views, "laplacian").effective_rank()
    torch.testing.assert_close(
        covariance_operator(views.float(), "laplacian").effective_rank().double(), precise, rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_points_that_are_the_same_have_distance_zero(shift):
    z = (points(6, 40) + shift).float()
    z[4] = z[1]
    squared = AllPairs(z).squared_distance
    assert squared[4, 1] == squared[1, 4] == 0
    assert bool((squared.diagonal() == 0).all())
    assert int((squared == 0).sum()) == 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_symmetry_is_seen(dtype):
    matrix = points(2, 300, 300).to(dtype)
    symmetric = matrix + matrix.mT
    assert distances.is_symmetric(symmetric)
    assert not distances.is_symmetric(matrix)
    symmetric[1, 3, 200] += 1
    assert not distances.is_symmetric(symmetric)


def test_large_cotangents_that_are_not_symmetric_are_seen(monkeypatch):
    monkeypatch.setattr(distances, "BLOCK", 4)
    x, weights = points(2, 6, 3).requires_grad_(), points(2, 6, 6)
    for w in (weights, weights + weights.mT):
        for quantity in ("inner", "squared_distance"):
            assert torch.autograd.gradcheck(lambda z, q=quantity, w=w: (getattr(AllPairs(z), q) * w).sum(), (x,))


def test_a_variance_that_weighs_nothing_has_no_gradient():
    z = torch.randn(256, 8, requires_grad=True)
    KernelVICRegLoss("rbf", variance_weight=0, covariance_weight=0)(z, z.detach() + 0.1).backward()
    assert torch.isfinite(z.grad).all()


def test_a_large_symmetric_gradient_is_not_added_to_its_transpose(monkeypatch):
    monkeypatch.setattr(distances, "BLOCK", 4)
    lopsided = points(4, 4)
    symmetric = lopsided + lopsided.mT
    with torch.no_grad():
        assert distances._with_transpose(symmetric) == (symmetric, 2)
        assert distances._with_transpose(symmetric[:3, :3])[1] == 1  # too small to gain by looking
        torch.testing.assert_close(distances._with_transpose(lopsided), (symmetric, 1))
    assert distances._with_transpose(symmetric)[1] == 1  # to be differentiated once more


@pytest.mark.parametrize("used", [0, 1])
def test_one_of_the_two_distances_of_two_views_may_go_unused(used):
    views = points(2, 6, 3).unbind()
    leaves = [view.clone().requires_grad_() for view in views]
    two_view_distances(*leaves)[used].square().sum().backward()
    plain = [view.clone().requires_grad_() for view in views]
    within = torch.stack([(x[:, None] - x[None]).square().sum(-1) for x in plain])
    (within, (plain[0] - plain[1]).square().sum(-1))[used].square().sum().backward()
    torch.testing.assert_close([leaf.grad for leaf in leaves], [leaf.grad for leaf in plain])
