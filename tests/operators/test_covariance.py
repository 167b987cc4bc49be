"""The covariance operator: its two sides, its floors, what it refuses."""

import numpy as np
import pytest
import torch

from kvicreg import kernels
from kvicreg.operators import CovarianceOperator, covariance_operator

RNG = np.random.default_rng(0)


def normal(*shape):
    return torch.from_numpy(RNG.normal(size=shape))


@pytest.mark.parametrize(
    ("b", "p", "side"), [(8, 3, 3), (8, 7, 7), (8, 8, 8), (8, 30, 8)], ids=["narrow", "nearly", "square", "wide"]
)
def test_linear_operator_is_kept_on_the_smaller_side(b, p, side):
    operator = covariance_operator(normal(b, p), "linear")
    assert operator.eigenvalues().shape == (side,)
    assert f"({side}, {side})" in repr(operator)
    assert operator.samples == b
    assert operator.rank_bound == min(b - 1, p)


@pytest.mark.parametrize("quantity", ["trace", "hs_norm", "squared_hs_norm", "offdiagonal_hs_norm", "effective_rank"])
@pytest.mark.parametrize("shape", [(9, 4), (9, 20)])
def test_both_sides_give_the_same(quantity, shape):
    z = normal(*shape)
    from_features = CovarianceOperator.from_features(z)
    from_gram = CovarianceOperator.from_gram(torch.from_numpy(z.numpy() @ z.numpy().T))
    torch.testing.assert_close(getattr(from_features, quantity)(), getattr(from_gram, quantity)())


def test_features_far_from_the_origin_lose_nothing():
    z = normal(16, 4).float()
    near, far = covariance_operator(z, "linear"), covariance_operator(z + 1000.0, "linear")
    torch.testing.assert_close(far.eigenvalues(), near.eigenvalues(), rtol=1e-3, atol=1e-4)


def test_scale_multiplies_the_operator():
    z = normal(9, 4)
    for build in (
        CovarianceOperator.from_features,
        lambda x, scale=1.0: CovarianceOperator.from_gram(x @ x.mT, scale=scale),
    ):
        one, three = build(z), build(z, scale=3.0)
        torch.testing.assert_close(three.trace(), 3 * one.trace())
        torch.testing.assert_close(three.eigenvalues(), 3 * one.eigenvalues())
        torch.testing.assert_close(three.offdiagonal_hs_norm(), 3 * one.offdiagonal_hs_norm())


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf", "laplacian", "rq"])
def test_leading_dimension_is_views_that_share_one_bandwidth(kernel):
    views = torch.stack([normal(9, 4), 3 * normal(9, 4)])
    together = covariance_operator(views, kernel)
    fixed = kernels.get(kernel).resolve(*views)
    for i, view in enumerate(views):
        alone = covariance_operator(view, fixed)
        torch.testing.assert_close(together.eigenvalues()[i], alone.eigenvalues())
        torch.testing.assert_close(together.offdiagonal_hs_norm()[i], alone.offdiagonal_hs_norm())
        torch.testing.assert_close(together.effective_rank()[i], alone.effective_rank())


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "rbf", "laplacian", "rq"])
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_eigenvalues_are_descending_and_never_negative(kernel, scale):
    for z in (normal(12, 20), normal(1, 20).expand(12, 20), torch.zeros(12, 20, dtype=torch.float64)):
        values = covariance_operator((scale * z).float(), kernel).eigenvalues()
        assert bool((values >= 0).all())
        assert bool((values.diff() <= 0).all())


def test_floor_keeps_the_gradient_of_a_vanishing_eigenvalue():
    # two points moving apart from nothing: the variance's gradient must not be cut off by the floor
    operator = CovarianceOperator.from_gram(torch.diag(torch.tensor([0.0, -1e-9, 1.0])).requires_grad_())
    gram = torch.zeros(3, 3, requires_grad=True)
    CovarianceOperator.from_gram(gram).eigenvalues().sum().backward()
    torch.testing.assert_close(gram.grad, (torch.eye(3) - 1 / 3) / 3)
    assert bool((operator.eigenvalues() >= 0).all())


def test_effective_rank_counts_equal_directions():
    for r in (1, 2, 5):
        z = torch.zeros(2 * r, 7, dtype=torch.float64)
        for i in range(r):
            z[2 * i, i], z[2 * i + 1, i] = 1, -1
        assert float(covariance_operator(z, "linear").effective_rank()) == pytest.approx(r)


def test_effective_rank_of_exact_collapse_is_one_and_finite():
    assert float(covariance_operator(torch.ones(8, 4), "linear").effective_rank()) == pytest.approx(1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_effective_rank_is_at_most_the_bound(kernel):
    for shape in [(8, 3), (8, 30), (2, 5)]:
        operator = covariance_operator(normal(*shape), kernel)
        assert 1 - 1e-9 <= float(operator.effective_rank()) <= operator.rank_bound + 1e-6


@pytest.mark.parametrize(
    ("kernel", "p", "bound"),
    [("linear", 3, 3), ("linear", 40, 15), ("polynomial", 2, 5), ("polynomial", 20, 15), ("rbf", 2, 15)],
)
def test_rank_bound_is_that_of_the_batch_or_of_the_kernel(kernel, p, bound):
    operator = covariance_operator(normal(16, p), kernel)
    assert operator.rank_bound == bound
    assert int((operator.eigenvalues() > 1e-12).sum()) == bound


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_computed_in_float32_at_least(dtype):
    z = normal(8, 4).to(dtype)
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for kernel in ("linear", "rbf"):
            operator = covariance_operator(z, kernel)
            for value in (operator.eigenvalues(), operator.trace(), operator.hs_norm(), operator.offdiagonal_hs_norm()):
                assert value.dtype == expected


@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 3, 4, 5)])
def test_refuses_what_is_no_batch(shape):
    with pytest.raises(ValueError, match=r"z must have shape \(b, p\) or \(views, b, p\) with b >= 2"):
        covariance_operator(torch.randn(*shape))


def test_refuses_integers_and_other_objects():
    with pytest.raises(TypeError, match=r"z must be a floating-point tensor, got torch.int64"):
        covariance_operator(torch.ones(4, 2, dtype=torch.long))
    with pytest.raises(TypeError, match=r"z must be a torch.Tensor, got ndarray; torch.from_numpy"):
        covariance_operator(np.ones((4, 2)))


def test_refuses_a_gram_matrix_that_is_not_square():
    with pytest.raises(ValueError, match=r"gram must have shape \(\.\.\., b, b\), got \(3, 4\)"):
        CovarianceOperator.from_gram(torch.randn(3, 4))


def test_refuses_a_gram_matrix_that_is_not_symmetric():
    gram = normal(5, 3) @ normal(3, 5)
    with pytest.raises(ValueError, match="gram must be symmetric"):
        CovarianceOperator.from_gram(gram)
    CovarianceOperator.from_gram(gram + gram.mT)


def test_an_operator_shows_its_side_and_knows_its_round_off():
    gram = CovarianceOperator.from_gram(4.0 * torch.eye(5), scale=3.0)
    assert repr(gram) == "CovarianceOperator(gram, shape=(5, 5), samples=5)"
    assert float(gram.round_off) == pytest.approx(64 * torch.finfo(torch.float32).eps * 4 * 3)
    assert (gram.samples, gram.rank_bound) == (5, 4)
    features = CovarianceOperator.from_features(normal(2, 6, 3), scale=2.0)
    assert repr(features.of_view(1)) == "CovarianceOperator(features, shape=(3, 3), samples=6)"
    assert (features.round_off, features.of_view(1).round_off, features.rank_bound) == (0, 0, 3)
    assert CovarianceOperator.from_features(normal(6, 3), rank=2).rank_bound == 2
    assert CovarianceOperator.from_features(normal(6, 3), rank=2, centred=False).rank_bound == 2
    assert CovarianceOperator.from_features(normal(6, 8), centred=False).rank_bound == 6
    assert CovarianceOperator.from_gram(torch.eye(5), rank=2).rank_bound == 2


def test_one_of_several_operators_has_its_own_norms():
    views = torch.stack([normal(9, 4), 3 * normal(9, 4)])
    for together in (CovarianceOperator.from_features(views), CovarianceOperator.from_gram(views @ views.mT)):
        for i, view in enumerate(views):
            alone, one = CovarianceOperator.from_features(view), together.of_view(i)
            torch.testing.assert_close(one.offdiagonal_hs_norm(), alone.offdiagonal_hs_norm())
            torch.testing.assert_close(one.eigenvalues()[:4], alone.eigenvalues())
            assert torch.as_tensor(one.round_off).equal(torch.as_tensor(together.round_off).expand(2)[i])


@pytest.mark.parametrize("solver", ["eigh", "cpu", "products"])
@pytest.mark.parametrize("count", [3, 4, 7])
def test_the_hinge_counts_missing_directions_as_zero(solver, count):
    values = np.array([2.0, 1.0, 0.5, 0.0])
    roots = np.sqrt(2 * np.concatenate([values, np.zeros(3)])[:count] + 0.01)
    expected = ((1.5 - roots).clip(0) ** 2).sum()
    operator = CovarianceOperator(torch.diag(torch.tensor(values)), 1.0, 4, 4)
    assert float(operator.hinge_sum(1.5, 0.01, count, 2.0, solver)) == pytest.approx(expected, rel=0.02)
    assert float(operator.hinge_sum(0.05, 0.01, 7, solver=solver)) == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(("shape", "bound"), [((6, 3), 3), ((3, 6), 3), ((2, 6, 3), 3)])
def test_a_second_moment_has_no_more_directions_than_rows_or_features(shape, bound):
    features = torch.randn(shape, dtype=torch.float64)
    operator = CovarianceOperator.from_features(features, centred=False)
    assert (operator.rank_bound, operator.samples) == (bound, shape[-2])
    expected = features.mT @ features / shape[-2]
    torch.testing.assert_close(operator.trace(), expected.diagonal(dim1=-2, dim2=-1).sum(-1))
    assert CovarianceOperator.from_features(features, centred=False, rank=2).rank_bound == 2


@pytest.mark.parametrize("name", ["features", "gram"])
def test_what_is_no_tensor_of_numbers_is_named(name):
    make = getattr(CovarianceOperator, f"from_{name}")
    with pytest.raises(TypeError, match=rf"^{name} must be a torch.Tensor, got ndarray; torch.from_numpy makes one"):
        make(np.eye(3))
    with pytest.raises(TypeError, match=rf"^{name} must be a floating-point tensor, got torch.int64"):
        make(torch.eye(3).long())
