"""Second derivatives are right, or refused in a sentence, under torch.autograd and torch.func: never silently wrong.

1. The Gram matrix, the paired values and the diagonal of every kernel, with a scale that is fixed or the median's, have
   the second derivatives that differences of their gradients have. So does every quantity of the covariance operator
   that needs no eigenvalues, on either side of it, and under every approximation.
2. VICReg has right second derivatives. Eigenvalues, and so Kernel VICReg, refuse them.
3. Nested transforms of torch.func (reverse over reverse, forward over reverse, forward over forward) give the same, or
   the same refusal.
4. First derivatives in forward mode, torch.func.jvp and torch.autograd.forward_ad, are the first derivatives.
5. What a loss over several processes can't differentiate twice it refuses.
6. The same holds of a compiled loss whose graph is run as it was traced. Whether a backend that makes a backward graph
   of its own refuses second derivatives is up to torch.
"""

import re

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from kernel_pairs import PAIRS

from kvicreg import KernelVICRegLoss, VICRegLoss, kernels, operators
from kvicreg.operators import covariance_operator, shard

KERNELS = {name: make for name, (make, _) in PAIRS.items()} | {
    "rbf-median": kernels.RBF,
    "laplacian-median": kernels.Laplacian,
    "inverse-multiquadric": lambda: kernels.InverseMultiquadric(0.4),
    "multi-rbf": kernels.multi_rbf,
    "self-tuning": lambda: kernels.SelfTuning(0.3),
    "per-dimension": lambda: kernels.PerDimension(kernels.RBF(0.2)),
}
REFUSED = "kvicreg: second derivatives of eigenvalues are not supported"
NOT_IN_TORCH = r"not implemented|does not support"


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


Z, DIRECTION = draw(6, 4), draw(6, 4, seed=1)
OTHER = draw(6, 4, seed=2)


def by_autograd(function, z, direction):
    z = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(z), z, create_graph=True)
    return torch.autograd.grad((gradient * direction).sum(), z)[0]


def by_grad_of_grad(function, z, direction):
    return torch.func.grad(lambda point: (torch.func.grad(function)(point) * direction).sum())(z)


def by_reverse_over_reverse(function, z, direction):
    return torch.einsum("abcd,cd->ab", torch.func.jacrev(torch.func.jacrev(function))(z), direction)


def by_hessian(function, z, direction):
    return torch.einsum("abcd,cd->ab", torch.func.hessian(function)(z), direction)


def by_forward_over_forward(function, z, direction):
    return torch.einsum("abcd,cd->ab", torch.func.jacfwd(torch.func.jacfwd(function))(z), direction)


WAYS = [by_autograd, by_grad_of_grad, by_reverse_over_reverse, by_hessian, by_forward_over_forward]


def by_differences(function, z, direction, step=1e-5):
    def gradient(point):
        point = point.clone().requires_grad_()
        return torch.autograd.grad(function(point), point)[0]

    return (gradient(z + step * direction) - gradient(z - step * direction)) / (2 * step)


def is_right(way, function, z=Z, direction=DIRECTION):
    expected = by_differences(function, z, direction)
    torch.testing.assert_close(
        way(function, z, direction), expected, rtol=1e-5, atol=1e-6 * float(expected.abs().max())
    )


def frozen(make):
    """The kernel with its scales fixed, which no gradient goes through: a finite difference would see them move."""
    kernel = make().double().resolve(Z, OTHER)
    if isinstance(kernel, kernels.SelfTuning):
        amplitudes = kernel._amplitudes(Z)
        kernel._amplitudes = lambda x: amplitudes
    return kernel


MATRIX, VECTOR = draw(6, 6, seed=3), draw(6, seed=3)
QUANTITIES = {
    "gram": lambda kernel, z: (kernel(z) * MATRIX).sum(),
    "cross gram": lambda kernel, z: (kernel(z, OTHER) * MATRIX).sum(),
    "paired": lambda kernel, z: (kernel.paired(z, OTHER) * VECTOR).sum(),
    "diagonal": lambda kernel, z: (kernel.diagonal(z) * VECTOR).sum(),
    "squared distance": lambda kernel, z: (kernel.squared_distance(z, OTHER) * VECTOR).sum(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel(name, quantity, way):  # claims 1 and 3
    kernel = frozen(KERNELS[name])

    def function(z):
        return QUANTITIES[quantity](kernel, z) + z.square().sum()

    try:
        is_right(way, function)
    except (RuntimeError, NotImplementedError) as error:  # torch has no second derivatives of L1 distances, and says so
        if name != "laplacian-l1" or not re.search(NOT_IN_TORCH, str(error)):
            raise


NORMS = ["trace", "hs_norm", "squared_hs_norm", "offdiagonal_hs_norm", "squared_offdiagonal_hs_norm"]
APPROXIMATIONS = {
    "exact": lambda: None,
    "nystrom": lambda: operators.Nystrom(landmarks=3),
    "fourier": lambda: operators.RandomFourier(features=6),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("quantity", NORMS)
@pytest.mark.parametrize("shape", [(6, 4), (4, 6)], ids=["tall", "wide"])
def test_norms_of_features(shape, quantity, way):  # claims 1 and 3
    is_right(way, lambda z: getattr(covariance_operator(z, "linear"), quantity)(), draw(*shape), draw(*shape, seed=1))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("quantity", NORMS)
@pytest.mark.parametrize("name", ["polynomial", "rbf", "laplacian", "mixture"])
def test_norms_of_kernels(name, quantity, way):  # claims 1 and 3
    is_right(way, lambda z: getattr(covariance_operator(z, frozen(KERNELS[name])), quantity)())


@pytest.mark.parametrize("way", [by_autograd, by_grad_of_grad, by_hessian])
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_norms_under_random_features(name, way):  # claims 1 and 3
    approximation = operators.RandomFourier(features=6)
    kernel = frozen(KERNELS[name])
    is_right(way, lambda z: covariance_operator(z, kernel, approximation).squared_offdiagonal_hs_norm())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("convention", ["official", "solo-learn", "paper"])
@pytest.mark.parametrize("shape", [(6, 4), (4, 6)], ids=["tall", "wide"])
def test_vicreg(shape, convention, way):  # claims 2 and 3
    other = draw(*shape, seed=2)
    is_right(way, lambda z: VICRegLoss(convention)(z, other), draw(*shape), draw(*shape, seed=1))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "approximation"),
    [(name, a) for name in ("linear", "polynomial", "rbf", "laplacian", "rq") for a in ("exact", "nystrom")]
    + [(name, "fourier") for name in ("rbf", "laplacian", "rq")],
)
@pytest.mark.parametrize("parametrization", ["scaled", "paper"])
def test_kernel_vicreg_refuses(parametrization, name, approximation, way):  # claims 2 and 3
    criterion = KernelVICRegLoss(KERNELS[name](), parametrization, approximation=APPROXIMATIONS[approximation]())
    with pytest.raises(RuntimeError, match=REFUSED):
        way(lambda z: criterion(z, OTHER), Z, DIRECTION)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("quantity", ["eigenvalues", "effective_rank"])
def test_eigenvalues_refuse(quantity, way):  # claims 2 and 3
    with pytest.raises(RuntimeError, match=REFUSED):
        way(lambda z: getattr(covariance_operator(z, "linear"), quantity)().square().sum(), Z, DIRECTION)


LOSSES = {
    "vicreg": VICRegLoss,
    "linear": lambda: KernelVICRegLoss("linear"),
    "rbf": lambda: KernelVICRegLoss(kernels.RBF(0.2)),
    "rbf-median": lambda: KernelVICRegLoss("rbf"),
    "laplacian-paper": lambda: KernelVICRegLoss("laplacian", "paper"),
    "nystrom": lambda: KernelVICRegLoss("rbf", approximation=operators.Nystrom(landmarks=3)),
    "fourier": lambda: KernelVICRegLoss("rbf", approximation=operators.RandomFourier(features=6)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_forward_mode_is_the_first_derivative(name):  # claim 4
    criterion = LOSSES[name]()
    leaf = Z.clone().requires_grad_()
    expected = (torch.autograd.grad(criterion(leaf, OTHER), leaf)[0] * DIRECTION).sum()
    torch.testing.assert_close(torch.func.jvp(lambda z: criterion(z, OTHER), (Z,), (DIRECTION,))[1], expected)
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(criterion(forward_ad.make_dual(Z, DIRECTION), OTHER))
    torch.testing.assert_close(dual.tangent, expected)


@pytest.mark.parametrize(
    "loss", [VICRegLoss(), KernelVICRegLoss("linear", variance_weight=0.0)], ids=["vicreg", "linear"]
)
def test_several_processes_refuse(monkeypatch, loss):  # claim 5
    # one process that believes that it is the first of two, the other of which holds the same rows
    def two(cls, z, *, gather):
        return shard.Shard(len(z[0]) if z.dim() == 3 else len(z), 0, 2 * z.shape[-2], (z.shape[-2],) * 2)

    monkeypatch.setattr(shard.Shard, "of", classmethod(two))
    monkeypatch.setattr(shard.dist, "all_reduce", lambda x: x.mul_(2))
    monkeypatch.setattr(shard.dist, "all_gather", lambda parts, x: [part.copy_(x) for part in parts])
    assert bool(torch.autograd.grad(loss(leaf := Z.clone().requires_grad_(), OTHER), leaf)[0].isfinite().all())
    with pytest.raises(RuntimeError, match=r"kvicreg: second derivatives of .* are not supported"):
        by_autograd(lambda z: loss(z, OTHER), Z, DIRECTION)


@pytest.mark.parametrize("name", ["vicreg", "linear", "rbf"])
def test_compiled_losses(name):  # claim 6
    criterion = LOSSES[name]()
    torch._dynamo.reset()
    compiled = torch.compile(lambda z: criterion(z, OTHER), backend="eager")
    expected = torch.func.jvp(lambda z: criterion(z, OTHER), (Z,), (DIRECTION,))[1]
    torch.testing.assert_close(torch.func.jvp(compiled, (Z,), (DIRECTION,))[1], expected)
    if name == "vicreg":
        is_right(by_autograd, compiled)
    else:
        with pytest.raises(RuntimeError, match=REFUSED):
            by_autograd(compiled, Z, DIRECTION)
