"""The loss is the paper's, and its scaled form is what it says it is.

The references are numpy in float64, written from the paper's equations, with all three b x b Gram matrices.

1. parametrization="paper" is L_inv, L_var(x) + L_var(x') and L_cov(x) + L_cov(x') as printed: the trace distance of
   the views, the hinge on sqrt(lambda_i / b + eps) averaged over all b eigenvalues, and the Hilbert-Schmidt norm
   (or its square, or with its diagonal), for every kernel and every option.
2. parametrization="scaled" is the same three in units of the total variance T = tr C + eps: |phi - phi'|^2 / T, the
   hinge on sqrt(r lambda_i / T + eps) averaged over the r directions that can vary, sqrt(r) |C|_HS / T.
3. The total is alpha, beta, zeta times the terms.
4. With more than two views it is the mean of the two-view loss over all pairs of views.
5. Under the median heuristic it is the loss at the gamma that the pooled views give: one gamma for both Gram matrices
   and the invariance term.
6. Scaled: a flat spectrum costs nothing, and its full norm reads 1, whatever the batch size and the scale.
7. Scaled: a kernel and any multiple of a sum's weights give the same loss: there are no units.
8. Scaled: views that have nothing in common are at distance 2, whatever the kernel and its bandwidth; the linear
   kernel's loss does not depend on the scale of the embeddings, so that no gradient makes them grow or shrink.
"""

import numpy as np
import numpy_reference as reference
import pytest
import torch
from kernel_pairs import PAIRS
from scipy.spatial.distance import pdist

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.losses import KernelVICRegOptions, kernel_vicreg_terms

RNG = np.random.default_rng(2)
VIEWS = [RNG.normal(size=(9, 3)) * s for s in (1.0, 1.3, 0.7)]
REFERENCES = {"paper": reference.paper_terms, "scaled": reference.scaled_terms}
OPTIONS = [
    {},
    {"covariance": "squared"},
    {"include_diagonal": True},
    {"covariance": "squared", "include_diagonal": True},
    {"threshold": 0.3},
    {"eps": 1e-2},
    {"threshold": 0.0},
]


def tensors(views):
    return [torch.from_numpy(v) for v in views]


def numbers(terms):
    return [float(t.detach()) for t in terms[1:]]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(f"{k}={v}" for k, v in o.items()) or "defaults")
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("parametrization", REFERENCES)
def test_terms_are_those_of_the_equations(parametrization, name, options):  # claims 1 and 2
    make, ref = PAIRS[name]
    ours = KernelVICRegLoss(make(), parametrization, spectrum="per-view", **options).terms(*tensors(VIEWS[:2]))
    tolerance = 2e-6 if "learnable" in name else 1e-9
    expected = REFERENCES[parametrization](VIEWS[:2], ref, **options)
    np.testing.assert_allclose(numbers(ours), expected, rtol=tolerance, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 1), (2, 5), (5, 1), (4, 4), (12, 2), (5, 12)])
@pytest.mark.parametrize("name", ["linear", "polynomial", "rbf", "laplacian"])
@pytest.mark.parametrize("parametrization", REFERENCES)
def test_terms_are_those_of_the_equations_for_every_shape(parametrization, name, shape):  # claims 1 and 2
    make, ref = PAIRS[name]
    views = [RNG.normal(size=shape), RNG.normal(size=shape)]
    ours = KernelVICRegLoss(make(), parametrization, spectrum="per-view").terms(*tensors(views))
    np.testing.assert_allclose(numbers(ours), REFERENCES[parametrization](views, ref), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("parametrization", REFERENCES)
def test_float32_agrees_with_the_float64_reference(parametrization, name):  # claims 1 and 2
    make, ref = PAIRS[name]
    ours = KernelVICRegLoss(make(), parametrization, spectrum="per-view").terms(
        *[v.float() for v in tensors(VIEWS[:2])]
    )
    np.testing.assert_allclose(numbers(ours), REFERENCES[parametrization](VIEWS[:2], ref), rtol=2e-4)


@pytest.mark.parametrize("parametrization", REFERENCES)
def test_total_is_the_weighted_sum_of_the_terms(parametrization):  # claim 3
    inv, var, cov = REFERENCES[parametrization](VIEWS[:2], PAIRS["rbf"][1])
    criterion = KernelVICRegLoss(PAIRS["rbf"][0](), parametrization, 3.0, 5.0, 7.0, spectrum="per-view")
    expected = 3 * inv + 5 * var + 7 * cov
    assert float(criterion(*tensors(VIEWS[:2]))) == pytest.approx(expected, rel=1e-9)
    assert float(criterion.terms(*tensors(VIEWS[:2])).total) == pytest.approx(expected, rel=1e-9)
    function = kernel_vicreg_terms(
        *tensors(VIEWS[:2]),
        kernel=PAIRS["rbf"][0](),
        parametrization=parametrization,
        spectrum="per-view",
        invariance_weight=3.0,
        variance_weight=5.0,
        covariance_weight=7.0,
    )
    assert float(function.total) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "settings", [{}, {"threshold": 0.7}, {"covariance_weight": 3.0, "covariance": "squared"}], ids=str
)
@pytest.mark.parametrize("parametrization", REFERENCES)
def test_function_and_module_agree_whatever_is_left_to_its_default(parametrization, settings):  # claim 3
    kernel, views = PAIRS["rbf"][0](), tensors(VIEWS[:2])
    module = KernelVICRegLoss(kernel, parametrization, **settings)
    function = kernel_vicreg_terms(*views, kernel=kernel, parametrization=parametrization, **settings)
    torch.testing.assert_close(tuple(function), tuple(module.terms(*views)), rtol=0, atol=0)
    options = KernelVICRegOptions(parametrization=parametrization, **settings)
    together = kernel_vicreg_terms(*views, kernel=kernel, options=options)
    torch.testing.assert_close(tuple(together), tuple(function), rtol=0, atol=0)
    made = KernelVICRegLoss(kernel, **options.flat())
    torch.testing.assert_close(made(*views), function.total, rtol=0, atol=0)
    assert made.options == module.options == options.resolved()
    assert None not in made.options.flat().values()
    assert (module.threshold, module.invariance_weight) == (options.deviation, options.weights[0])


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian-l1", "product"])
@pytest.mark.parametrize("parametrization", REFERENCES)
def test_more_views_are_the_mean_over_the_pairs(parametrization, name):  # claim 4
    make, ref = PAIRS[name]
    ours = KernelVICRegLoss(make(), parametrization, spectrum="per-view").terms(*tensors(VIEWS))
    np.testing.assert_allclose(numbers(ours), REFERENCES[parametrization](VIEWS, ref), rtol=1e-9)


MEDIANS = {
    "rbf": (lambda: kernels.RBF("median"), "sqeuclidean", reference.rbf),
    "rq": (lambda: kernels.RationalQuadratic("median"), "sqeuclidean", lambda g: reference.rq(g, 1.0)),
    "laplacian": (lambda: kernels.Laplacian("median"), "euclidean", lambda g: reference.laplacian(g, 2)),
    "laplacian-l1": (lambda: kernels.Laplacian("median", norm=1), "cityblock", lambda g: reference.laplacian(g, 1)),
}


@pytest.mark.parametrize("name", MEDIANS)
@pytest.mark.parametrize("parametrization", REFERENCES)
def test_median_heuristic_uses_one_gamma_of_the_pooled_views(parametrization, name):  # claim 5
    make, metric, ref = MEDIANS[name]
    gamma = 1 / np.median(np.concatenate([pdist(v, metric) for v in VIEWS[:2]]))
    ours = KernelVICRegLoss(make(), parametrization, spectrum="per-view").terms(*tensors(VIEWS[:2]))
    np.testing.assert_allclose(numbers(ours), REFERENCES[parametrization](VIEWS[:2], ref(gamma)), rtol=1e-9)


def _flat(b, p):
    """A batch whose covariance matrix over b is the identity of its p columns (p < b)."""
    columns, _ = np.linalg.qr(reference.centring(b) @ RNG.normal(size=(b, p)))
    return np.sqrt(b) * columns


@pytest.mark.parametrize(("b", "p"), [(8, 3), (64, 3), (64, 40)])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_flat_spectrum_costs_nothing_when_scaled(b, p, scale):  # claim 6
    z = scale * torch.from_numpy(_flat(b, p))
    terms = KernelVICRegLoss("linear", "scaled", threshold=1, include_diagonal=True, spectrum="per-view").terms(z, z)
    assert float(terms.invariance) == 0
    assert float(terms.variance) == pytest.approx(0, abs=1e-12)
    assert float(terms.covariance) == pytest.approx(2, rel=1e-3)  # 1 for each view, up to eps


def test_scaled_loss_has_no_units_in_a_sums_weights():  # claim 7
    z = tensors(VIEWS[:2])
    small = KernelVICRegLoss(0.1 * kernels.RBF(gamma=0.2) + 0.3 * kernels.Linear())(*z)
    large = KernelVICRegLoss(10.0 * kernels.RBF(gamma=0.2) + 30.0 * kernels.Linear())(*z)
    torch.testing.assert_close(small, large)


def test_scaled_loss_listens_to_the_shares_of_a_sum():  # claim 7
    z = tensors(VIEWS[:2])
    one = KernelVICRegLoss(0.3 * kernels.RBF(gamma=0.2) + 0.7 * kernels.Linear())(*z)
    other = KernelVICRegLoss(0.7 * kernels.RBF(gamma=0.2) + 0.3 * kernels.Linear())(*z)
    assert abs(float(one - other)) > 1e-3


@pytest.mark.parametrize("name", PAIRS)
def test_views_with_nothing_in_common_are_at_distance_two_when_scaled(name):  # claim 8
    x, y = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 800, 3)))
    for scale in (0.5, 2.0):  # of the embeddings, and so of the bandwidth
        for spectrum, most in (("per-view", 2), ("shared", 0.5)):
            terms = KernelVICRegLoss(PAIRS[name][0](), "scaled", spectrum=spectrum).terms(scale * x, scale * y)
            assert float(terms.invariance.detach()) == pytest.approx(most, rel=0.1)


def test_the_scaled_loss_of_the_linear_kernel_has_no_scale():  # claim 8
    x, y = (torch.from_numpy(RNG.normal(size=(20, 6))).requires_grad_() for _ in range(2))
    criterion = KernelVICRegLoss("linear", "scaled", 1.0, 1.0, 0.1, eps=1e-12)
    loss = criterion(x, y)
    torch.testing.assert_close(criterion(100 * x, 100 * y), loss)
    gradients = torch.autograd.grad(loss, (x, y))
    along = sum(float((g * z.detach()).sum()) for g, z in zip(gradients, (x, y), strict=True))
    assert abs(along) < 1e-9 * sum(float(g.norm()) for g in gradients)
