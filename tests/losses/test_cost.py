"""What the losses never compute: a second eigendecomposition, a p x p covariance; per view, no cross Gram matrix."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kvicreg import KernelVICRegLoss, VICRegLoss, kernels

PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "matmul", "_cdist_forward", "_euclidean_dist")
DECOMPOSITIONS = ("_linalg_eigh", "linalg_eigh", "linalg_eigvalsh", "_linalg_svd", "linalg_eig", "linalg_qr")


class Spy(TorchDispatchMode):
    """Records the name and the output shapes of every operation."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        outputs = out if isinstance(out, tuple | list) else (out,)
        self.seen += [(func.overloadpacket.__name__, tuple(o.shape)) for o in outputs if isinstance(o, torch.Tensor)]
        return out

    def matrices(self, names, rows, columns):
        """How many (rows, columns) matrices these operations made, batches counted one by one."""
        shapes = [shape for name, shape in self.seen if name in names and shape[-2:] == (rows, columns)]
        return sum(torch.Size(shape[:-2]).numel() for shape in shapes)


KERNELS = {
    "linear": kernels.Linear,
    "polynomial": kernels.Polynomial,
    "rbf": kernels.RBF,
    "laplacian": kernels.Laplacian,
    "laplacian-l1": lambda: kernels.Laplacian(norm=1),
    "rq": kernels.RationalQuadratic,
    "mixture": lambda: kernels.Mixture([kernels.RBF(), kernels.RationalQuadratic()]),
}
B, P = 13, 5


def run(criterion, count=2, b=B, p=P, backward=True):
    views = [torch.randn(b, p, requires_grad=True) for _ in range(count)]
    with Spy() as spy:
        loss = criterion(*views)
        if backward:
            loss.backward()
    return spy


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
@pytest.mark.parametrize("views", [2, 3])
def test_one_gram_matrix_per_view_and_none_across(name, parametrization, views):
    spy = run(KernelVICRegLoss(KERNELS[name](), parametrization, spectrum="per-view"), views, backward=False)
    expected = 0 if name == "linear" else views  # the linear kernel with p < b needs none at all
    halves = sum(name == "_pdist_forward" and shape == (B * (B - 1) // 2,) for name, shape in spy.seen)
    assert spy.matrices(PRODUCTS, B, B) + halves == expected


@pytest.mark.parametrize("criterion", [*KERNELS, "vicreg"])
def test_the_cost_of_more_views_grows_with_their_number_and_not_with_their_pairs(criterion):
    loss = (
        VICRegLoss()
        if criterion == "vicreg"
        else KernelVICRegLoss(KERNELS[criterion](), spectrum="per-view", gather=False)
    )
    numbers = [sum(torch.Size(shape).numel() for _, shape in run(loss, views, 8, 256).seen) for views in (6, 12)]
    assert numbers[1] < 2.2 * numbers[0]


def test_paired_kernels_make_no_matrix_of_pairs():
    x, y = torch.randn(B, P), torch.randn(B, P)
    for make in KERNELS.values():
        fixed = make().resolve(x, y)
        with Spy() as spy:
            fixed.paired(x, y), fixed.diagonal(x), fixed.squared_distance(x, y)
        assert all(shape.count(B) <= 1 for _, shape in spy.seen)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("views", [2, 3])
@pytest.mark.parametrize(("b", "p"), [(13, 5), (5, 13)])
@pytest.mark.parametrize("spectrum", ["per-view", "shared"])
def test_one_eigendecomposition_per_spectrum_serves_value_and_gradient(name, views, b, p, spectrum):
    spy = run(KernelVICRegLoss(KERNELS[name](), spectrum=spectrum), views, b, p)
    side = min(b, p) if name == "linear" else b
    made = [(op, shape) for op, shape in spy.seen if op in DECOMPOSITIONS]
    count, sizes = (views, 2) if spectrum == "per-view" else (1, 1)
    assert sum(torch.Size(shape[:-1]).numel() for _, shape in made if len(shape) == sizes) == count  # eigenvalues
    assert all(shape[-1] == side for _, shape in made)


def test_the_linear_kernel_never_builds_a_covariance_of_wide_embeddings():
    spy = run(KernelVICRegLoss("linear"), b=6, p=40)
    assert spy.matrices([op for op, _ in spy.seen], 40, 40) == 0


def test_vicreg_never_builds_a_covariance_of_wide_embeddings():
    spy = run(VICRegLoss(), b=6, p=40)
    assert spy.matrices([op for op, _ in spy.seen], 40, 40) == 0
    assert not [op for op, _ in spy.seen if op in DECOMPOSITIONS]
