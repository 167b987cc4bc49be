"""The contract: what holds for every kernel, by name, composed, with a fixed, a median and a smoothed scale."""

import copy
import math
import pickle
from functools import partial
from itertools import combinations

import pytest
import torch
from other_values import changed

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.kernels.pairs import EveryTwoViews, MatchedPairs

KERNELS = {
    "linear": kernels.Linear,
    "linear-gamma": lambda: kernels.Linear(gamma=0.5),
    "polynomial": kernels.Polynomial,
    "polynomial-3": lambda: kernels.Polynomial(3, 0.5, gamma=0.1),
    "rbf": kernels.RBF,
    "rbf-fixed": lambda: kernels.RBF(gamma=0.2),
    "rbf-smoothed": lambda: kernels.RBF("smoothed"),
    "rbf-half-the-median": lambda: kernels.RBF(kernels.Median(multiple=0.5)),
    "laplacian": kernels.Laplacian,
    "laplacian-fixed": lambda: kernels.Laplacian(0.3),
    "laplacian-l1": lambda: kernels.Laplacian(norm=1),
    "rq": kernels.RationalQuadratic,
    "rq-fixed": lambda: kernels.RationalQuadratic(0.3, alpha=0.5),
    "sum": lambda: 0.5 * kernels.RBF() + kernels.Linear() * 2.0,
    "mixture": lambda: kernels.Mixture([kernels.RBF(), kernels.Laplacian()], weights=[1, 3]),
    "learnable": lambda: kernels.Mixture([kernels.RBF(), kernels.Laplacian("smoothed")], learnable=True),
    "product": lambda: kernels.RBF() * kernels.Polynomial(),
    "multi-rbf": kernels.multi_rbf,
    "self-tuning": kernels.SelfTuning,
    "self-tuning-2": lambda: kernels.SelfTuning(0.3, neighbours=2),
    "per-dimension": lambda: kernels.PerDimension(kernels.RBF()),
    "per-dimension-mixture": lambda: kernels.make("rbf+2*laplacian", per_dimension=True),
    "nested": lambda: (kernels.RBF() + kernels.Linear()) * kernels.Laplacian(0.1),
}
# a kernel that is added joins by its name
KERNELS |= {name: partial(kernels.get, name) for name in kernels.KERNELS.names() if name not in KERNELS}


@pytest.fixture
def points():
    return torch.randn(3, 9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param]()


class TestEveryKernel:
    def test_a_bandwidth_of_two_sets_is_of_both(self, kernel, points):
        near, far = points[0], 3 * points[1] + 1
        gram = kernel(near, far)
        torch.testing.assert_close(kernel.paired(near, far), gram.diagonal())
        expected = kernel.resolve(near, far).evaluate_distance(MatchedPairs(near, far))
        torch.testing.assert_close(kernel.squared_distance(near, far), expected)

    def test_a_scale_in_double_precision_leaves_points_as_they_are(self, kernel, points):
        resolved = kernel.resolve(points[0])
        single = points.float()
        assert resolved.evaluate(MatchedPairs(single[0], single[1])).dtype == torch.float32
        assert resolved.evaluate(EveryTwoViews(single)).dtype == torch.float32
        assert resolved(single[0], single[1]).dtype == torch.float32

    def test_stays_on_its_device_and_does_not_wait_for_it(self, kernel):
        x, y = (torch.empty(5, 4, device="meta", requires_grad=True) for _ in range(2))
        kernel = kernel.to("meta")
        for value in (kernel(x), kernel(x, y), kernel.paired(x, y), kernel.squared_distance(x, y)):
            value.sum().backward()
            assert value.device.type == "meta"

    def test_is_symmetric_and_positive_semi_definite(self, kernel, points):
        gram = kernel(points[0]).detach()
        torch.testing.assert_close(gram, gram.mT)
        smallest = torch.linalg.eigvalsh((gram + gram.mT) / 2)[0]
        assert float(smallest) > -1e-12 * float(gram.abs().max()) * len(gram)

    def test_with_itself_equals_with_a_copy(self, kernel, points):
        x = points[0]
        fixed = kernel.resolve(x)
        torch.testing.assert_close(fixed(x), fixed(x, x.clone()))

    def test_diagonal_is_that_of_the_gram(self, kernel, points):
        x = points[0]
        torch.testing.assert_close(kernel.diagonal(x), kernel(x).diagonal())

    def test_paired_is_the_diagonal_of_the_cross_gram(self, kernel, points):
        x, y = points[0], points[1]
        fixed = kernel.resolve(x, y)
        torch.testing.assert_close(fixed.paired(x, y), fixed(x, y).diagonal())

    def test_squared_distance_is_that_of_feature_space(self, kernel, points):
        x, y = points[0], points[1]
        fixed = kernel.resolve(x, y)
        expected = fixed.diagonal(x) + fixed.diagonal(y) - 2 * fixed.paired(x, y)
        torch.testing.assert_close(fixed.squared_distance(x, y), expected)
        assert bool((fixed.squared_distance(x, x) == 0).all())

    def test_every_two_of_several_views_are_as_if_taken_two_by_two(self, kernel, points):
        fixed = kernel.resolve(*points)
        together = EveryTwoViews(points)
        for i, (x, y) in enumerate(combinations(points, 2)):
            for evaluate in (fixed.evaluate, fixed.evaluate_distance):
                torch.testing.assert_close(evaluate(together)[i], evaluate(MatchedPairs(x, y)))

    def test_rectangular_gram(self, kernel, points):
        fixed = kernel.resolve(points[0])
        cross = fixed(points[0], points[1, :5])
        assert cross.shape == (9, 5)
        torch.testing.assert_close(cross, fixed(points[0], points[1])[:, :5])
        torch.testing.assert_close(cross, fixed(points[1, :5], points[0]).mT)

    def test_leading_dimensions_are_batches(self, kernel, points):
        fixed = kernel.resolve(points[0])
        torch.testing.assert_close(fixed(points), torch.stack([fixed(x) for x in points]))
        torch.testing.assert_close(fixed.diagonal(points), torch.stack([fixed.diagonal(x) for x in points]))
        torch.testing.assert_close(
            fixed.paired(points[:2], points[1:]), torch.stack([fixed.paired(points[i], points[i + 1]) for i in (0, 1)])
        )

    def test_resolving_a_stack_of_views_is_resolving_the_views(self, kernel, points):
        torch.testing.assert_close(kernel.resolve(points)(points[0]), kernel.resolve(*points)(points[0]))

    def test_resolving_again_changes_nothing(self, kernel, points):
        fixed = kernel.resolve(points[0])
        torch.testing.assert_close(fixed.resolve(100 * points[1])(points[2]), fixed(points[2]))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_computes_in_float32_at_least(self, kernel, points, dtype):
        x = points[0].to(dtype)
        expected = torch.float64 if dtype == torch.float64 else torch.float32
        for result in (kernel(x), kernel.paired(x, x), kernel.diagonal(x)):
            assert result.dtype == expected
        wide = x if dtype == torch.float64 else x.float()
        torch.testing.assert_close(unseen(kernel)(x), unseen(kernel)(wide), rtol=0, atol=0)

    def test_autocast_does_not_lower_the_precision(self, kernel, points):
        x = points[0].float()
        again = unseen(kernel)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = kernel(x), kernel.paired(x, x), kernel.diagonal(x)
        torch.testing.assert_close(inside, (again(x), again.paired(x, x), again.diagonal(x)), rtol=0, atol=0)

    def test_survives_pickle_and_deepcopy(self, kernel, points):
        kernel.advance(points[0])  # gives a smoothed bandwidth its first value
        expected = kernel.eval()(points[1])
        torch.testing.assert_close(pickle.loads(pickle.dumps(kernel))(points[1]), expected)
        torch.testing.assert_close(copy.deepcopy(kernel)(points[1]), expected)

    def test_state_dict_brings_back_the_kernel(self, kernel, points):
        for x in points:
            kernel.advance(x)
        fresh = unseen(kernel)
        fresh.load_state_dict(kernel.state_dict())
        torch.testing.assert_close(fresh.eval()(points[1]), kernel.eval()(points[1]))

    def test_bound_holds(self, kernel, points):
        for scale in (0.1, 1.0, 10.0):
            assert float(kernel.diagonal(scale * points[0]).detach().max()) <= kernel.bound * (1 + 1e-6)

    def test_unit_scale_gives_one_at_unit_variance_input(self, kernel):
        p = 6
        x = torch.nn.functional.normalize(torch.randn(5, p, dtype=torch.float64), dim=1) * math.sqrt(p)
        torch.testing.assert_close(kernel.unit(p).diagonal(x).detach(), torch.ones(5, dtype=torch.float64))
        expected = kernel.resolve(x).diagonal(x).detach()
        assert torch.as_tensor(kernel.unit_value(p)).item() == pytest.approx(expected[0].item())

    def test_rank_bounds_the_directions_that_vary(self, kernel):
        p = 2
        z = torch.randn(60, p, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        gram = kernel(z).detach()
        centred = gram - gram.mean(0) - gram.mean(1, keepdim=True) + gram.mean()
        assert int(torch.linalg.matrix_rank(centred, hermitian=True, rtol=1e-10)) <= kernel.rank(p)

    def test_a_loss_has_finite_gradients_where_points_are_equal_too(self, kernel, points):
        first = points[0].clone()
        first[1] = first[0]
        for second in (points[1], first):  # an image of which both views are equal, too
            views = [view.clone().requires_grad_() for view in (first, second)]
            KernelVICRegLoss(kernel)(*views).backward()
            assert all(bool(view.grad.isfinite().all()) for view in views)

    def test_its_gradient_is_that_of_its_values(self, kernel, points):
        fixed = kernel.resolve(points)
        if isinstance(fixed, kernels.SelfTuning):  # no gradient flows through its local scales
            local = fixed._amplitudes(points[0])
            fixed._amplitudes = lambda x: local
        x, y = points[0].clone().requires_grad_(), points[1].clone().requires_grad_()
        assert torch.autograd.gradcheck(fixed, [x])
        assert torch.autograd.gradcheck(fixed.paired, [x, y])
        assert torch.autograd.gradcheck(fixed.squared_distance, [x, y])

    def test_repr_names_the_kernel(self, kernel):
        assert repr(kernel).startswith(type(kernel).__name__)

    def test_refuses_points_that_are_none(self, kernel):
        with pytest.raises(TypeError, match=r"x must be a floating-point tensor, got torch.int64"):
            kernel(torch.ones(3, 2, dtype=torch.long))
        with pytest.raises(TypeError, match=r"x must be a torch.Tensor, got list"):
            kernel([[1.0, 2.0]])
        with pytest.raises(TypeError, match=r"x must be a torch.Tensor, got list"):
            kernel.diagonal([[1.0, 2.0]])
        with pytest.raises(ValueError, match="shape"):
            kernel(torch.ones(3))

    def test_refuses_points_that_do_not_match(self, kernel):
        fixed = kernel.resolve(torch.randn(4, 2))
        with pytest.raises(ValueError, match="same number of columns"):
            fixed(torch.randn(3, 2), torch.randn(3, 5))
        with pytest.raises(ValueError, match="same shape"):
            fixed.paired(torch.randn(3, 2), torch.randn(4, 2))


@pytest.mark.parametrize("name", kernels.KERNELS.names())
def test_repr_shows_every_setting(name):
    for setting, before, after in changed(kernels.KERNELS.find(name).of()):
        assert repr(after.build()) != repr(before.build()), setting


def test_a_kernel_of_infinite_slope_at_0_breaks_the_contract(points):
    class Root(kernels.StationaryKernel):
        def profile(self, exponent):
            return (-exponent.neg().sqrt()).exp()

    assert TestEveryKernel().test_is_symmetric_and_positive_semi_definite(Root(), points) is None
    with pytest.raises(AssertionError):
        TestEveryKernel().test_a_loss_has_finite_gradients_where_points_are_equal_too(Root(), points)


def test_a_kernel_says_what_it_must_define(points):
    class Toy(kernels.Kernel):
        pass

    with pytest.raises(NotImplementedError, match=r"Toy must define evaluate\(pairs\)"):
        Toy()(points[0])
    with pytest.raises(NotImplementedError, match=r"Toy must define unit_value\(dimension\)"):
        KernelVICRegLoss(Toy())(points[0], points[1])


def unseen(kernel):
    """A kernel of the same settings that has seen no data."""
    fresh = copy.deepcopy(kernel)
    for module in fresh.modules():
        if isinstance(module, kernels.Median) and module.momentum:
            module.running.fill_(math.nan)
    return fresh
