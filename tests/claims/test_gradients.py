"""The gradient is the derivative of the loss, also where a naive one breaks.

1. With a fixed scale it passes gradcheck in float64, for every kernel and every option, with respect to both views.
2. Under the median heuristic it is the gradient with the resolved gamma held fixed: none flows through the median.
3. Repeated eigenvalues (equidistant points): finite, and equal to central differences of the numpy reference.
4. Zero eigenvalues and zero distances (duplicate rows, fewer coordinates than samples, a line): the same.
5. The kernels with a kink at zero distance (Laplacians) give a finite gradient at duplicates, and none between them.
6. Identical views: the invariance term has zero gradient, and every gradient is finite.
7. The gradient with respect to the weights of a learnable mixture and to a gamma that is a parameter is right.
8. Common translations are free: the gradient of a shift-invariant loss sums to zero over the rows.
"""

import numpy as np
import numpy_reference as reference
import pytest
import torch
from kernel_pairs import PAIRS

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.operators import CovarianceOperator, covariance_operator

RNG = np.random.default_rng(5)
OPTIONS = [
    {},
    {"covariance": "squared"},
    {"include_diagonal": True},
    {"covariance": "squared", "include_diagonal": True},
    {"threshold": 0.4, "eps": 1e-3},
]
WEIGHTS = {"invariance_weight": 1.0, "variance_weight": 2.0, "covariance_weight": 0.5}
SMOOTH = ["linear", "polynomial", "rbf", "rq", "product"]
KINKED = ["laplacian", "laplacian-l1", "mixture"]
PARAMETRIZATIONS = {"paper": reference.paper_terms, "scaled": reference.scaled_terms}


def normal(*shape):
    return torch.from_numpy(RNG.normal(size=shape))


def gradient(loss, *views):
    leaves = [v.clone().requires_grad_() for v in views]
    return torch.autograd.grad(loss(*leaves), leaves)


def central_differences(function, x, step=1e-5):
    """Derivative of a numpy function with respect to every entry of x."""
    result = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        there, back = x.copy(), x.copy()
        there[index] += step
        back[index] -= step
        result[index] = (function(there) - function(back)) / (2 * step)
    return result


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(f"{k}={v}" for k, v in o.items()) or "defaults")
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
def test_gradcheck(parametrization, name, options):  # claim 1
    criterion = KernelVICRegLoss(PAIRS[name][0](), parametrization, **WEIGHTS, **options)
    x, y = normal(5, 3).requires_grad_(), normal(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(criterion, (x, y))


@pytest.mark.parametrize("shape", [(2, 1), (3, 7), (7, 2)])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_gradcheck_on_either_side_of_the_operator(name, shape):  # claim 1
    criterion = KernelVICRegLoss(PAIRS[name][0](), "paper", **WEIGHTS)
    assert torch.autograd.gradcheck(criterion, (normal(*shape).requires_grad_(), normal(*shape).requires_grad_()))


@pytest.mark.parametrize("quantity", ["eigenvalues", "trace", "hs_norm", "offdiagonal_hs_norm", "effective_rank"])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_every_quantity_of_the_operator_is_differentiable(name, quantity):  # claim 1
    z = normal(5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: getattr(covariance_operator(x, PAIRS[name][0]()), quantity)(), (z,))


def test_the_effective_rank_has_a_gradient_where_an_eigenvalue_is_zero():  # claim 1
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]], dtype=torch.float64, requires_grad=True)
    gram = torch.block_diag(z @ z.T, torch.zeros(2, 2, dtype=torch.float64))
    (slope,) = torch.autograd.grad(CovarianceOperator.from_gram(gram).effective_rank(), z)
    assert slope.isfinite().all()
    assert slope.abs().max() > 0.1


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.RBF("median"),
        kernels.RationalQuadratic("median"),
        kernels.Laplacian("median"),
        kernels.Laplacian("median", norm=1),
    ],
    ids=["rbf", "rq", "laplacian", "laplacian-l1"],
)
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
def test_no_gradient_flows_through_the_median(kernel, parametrization):  # claim 2
    x, y = normal(6, 3), normal(6, 3)
    fixed = type(kernel)(
        float(kernel.resolve(x, y).gamma), **({"norm": kernel.norm} if hasattr(kernel, "norm") else {})
    )
    ours = gradient(KernelVICRegLoss(kernel, parametrization), x, y)
    expected = gradient(KernelVICRegLoss(fixed, parametrization), x, y)
    torch.testing.assert_close(ours, expected)


def _special_batches():
    simplex = np.eye(5)
    duplicates = RNG.normal(size=(5, 5))
    duplicates[3] = duplicates[1]
    line = np.arange(5.0)[:, None] * RNG.normal(size=(1, 5))
    two_points = np.repeat(RNG.normal(size=(2, 5)), [2, 3], axis=0)
    return {"simplex": simplex, "duplicates": duplicates, "line": line, "two-points": two_points}


@pytest.mark.parametrize("batch", _special_batches())
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("parametrization", PARAMETRIZATIONS)
def test_gradient_is_right_where_eigenvalues_repeat_or_vanish(parametrization, name, batch):  # claims 3 and 4
    x, y = _special_batches()[batch], RNG.normal(size=(5, 5))
    make, ref = PAIRS[name]

    def numpy_loss(z):
        return float(np.dot([1.0, 2.0, 0.5], PARAMETRIZATIONS[parametrization]([z, y], ref, eps=1e-2)))

    criterion = KernelVICRegLoss(make(), parametrization, **WEIGHTS, eps=1e-2, spectrum="per-view")
    ours = gradient(lambda z: criterion(z, torch.from_numpy(y)), torch.from_numpy(x))[0].numpy()
    np.testing.assert_allclose(ours, central_differences(numpy_loss, x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
def test_kinked_kernels_are_finite_at_duplicates(parametrization, name):  # claim 5
    criterion = KernelVICRegLoss(PAIRS[name][0](), parametrization)
    x = normal(6, 3)
    x[4] = x[2]
    ours = gradient(lambda z: criterion(z, z.detach()), x)[0]
    assert bool(ours.isfinite().all())
    # two rows that are the same are pulled alike: nothing is drawn between them
    torch.testing.assert_close(ours[4], ours[2])


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_identical_views_have_no_invariance_gradient(name, dtype):  # claim 6
    z = normal(6, 3).to(dtype)
    only_invariance = KernelVICRegLoss(PAIRS[name][0](), "paper", 1.0, 0.0, 0.0)
    ours = gradient(only_invariance, z, z)
    assert all(float(g.abs().max()) <= 1e-6 for g in ours)
    assert all(bool(g.isfinite().all()) for g in gradient(KernelVICRegLoss(PAIRS[name][0]()), z, z))


def test_learnable_weights_have_the_right_gradient():  # claim 7
    mixture = kernels.Mixture([kernels.RBF(gamma=0.3), kernels.Linear()], weights=[1, 2], learnable=True).double()
    x, y = normal(6, 3), normal(6, 3)
    criterion = KernelVICRegLoss(mixture, "paper", learn_mixture_by="loss")

    def loss(logits):
        return torch.func.functional_call(criterion, {"kernel.logits": logits}, (x, y))

    assert torch.autograd.gradcheck(loss, (mixture.logits.detach().clone().requires_grad_(),))


@pytest.mark.parametrize("make", [kernels.RBF, kernels.Laplacian, kernels.RationalQuadratic])
def test_gamma_may_be_a_parameter(make):  # claim 7
    gamma = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    x, y = normal(6, 3), normal(6, 3)
    assert torch.autograd.gradcheck(lambda g: KernelVICRegLoss(make(gamma=g))(x, y), (gamma,))
    criterion = KernelVICRegLoss(make(gamma=torch.nn.Parameter(torch.tensor(0.3))))
    assert [name for name, _ in criterion.named_parameters()] == ["kernel.gamma"]


@pytest.mark.parametrize("name", ["rbf", "laplacian", "laplacian-l1", "rq"])
def test_translations_are_free(name):  # claim 8
    criterion = KernelVICRegLoss(PAIRS[name][0]())
    gx, gy = gradient(criterion, normal(6, 3), normal(6, 3))
    torch.testing.assert_close((gx + gy).sum(0), torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-12)
