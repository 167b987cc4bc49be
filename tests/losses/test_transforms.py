"""The losses under torch's machinery: compile, autocast, deepcopy, pickle, state_dict, devices, torch.func."""

import copy
import io
import pickle
import sys

import pytest
import torch

from kvicreg import KernelVICRegLoss, VICRegLoss, kernels

LOSSES = {
    "linear": lambda: KernelVICRegLoss("linear"),
    "linear-paper": lambda: KernelVICRegLoss("linear", "paper"),
    "polynomial": lambda: KernelVICRegLoss("polynomial"),
    "rbf": lambda: KernelVICRegLoss("rbf"),
    "rbf-paper": lambda: KernelVICRegLoss(kernels.RBF(0.2), "paper", covariance="squared", include_diagonal=True),
    "laplacian": lambda: KernelVICRegLoss("laplacian"),
    "laplacian-l1": lambda: KernelVICRegLoss(kernels.Laplacian(norm=1)),
    "rq": lambda: KernelVICRegLoss("rq"),
    "mixture": lambda: KernelVICRegLoss(kernels.Mixture([kernels.RBF(), kernels.Linear()], learnable=True)),
    "smoothed": lambda: KernelVICRegLoss(kernels.RBF("smoothed")),
    "vicreg": VICRegLoss,
    "vicreg-paper": lambda: VICRegLoss("paper"),
}


@pytest.fixture(params=LOSSES)
def criterion(request):
    return LOSSES[request.param]()


@pytest.fixture
def views():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(10, 4, generator=generator, dtype=torch.float64) for _ in range(2)]


def value_and_gradient(loss, views):
    leaves = [v.clone().requires_grad_() for v in views]
    value = loss(*leaves)
    return value.detach(), *torch.autograd.grad(value, leaves)


@pytest.mark.parametrize("name", ["linear", "smoothed", "vicreg"])
def test_compiled_value_and_gradient_are_the_same(name, views):
    torch._dynamo.reset()
    compiled = torch.compile(LOSSES[name](), backend="aot_eager")
    torch.testing.assert_close(value_and_gradient(compiled, views), value_and_gradient(LOSSES[name](), views))


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="before 3.12 cached_property holds a lock that dynamo can't trace"
)
@pytest.mark.parametrize("name", LOSSES)
def test_compiles_to_one_graph(name, views):
    torch._dynamo.reset()
    compiled = torch.compile(LOSSES[name](), backend="eager", fullgraph=True)
    torch.testing.assert_close(value_and_gradient(compiled, views), value_and_gradient(LOSSES[name](), views))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_does_not_lower_the_precision(criterion, views, dtype):
    views = [v.float() for v in views]
    outside = value_and_gradient(copy.deepcopy(criterion), views)
    leaves = [v.clone().requires_grad_() for v in views]
    with torch.autocast("cpu", dtype=dtype):
        loss = criterion(*leaves)
    assert loss.dtype == torch.float32
    inside = loss.detach(), *torch.autograd.grad(loss, leaves)
    torch.testing.assert_close(inside, outside, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_views_are_computed_in_float32(criterion, views, dtype):
    views = [v.to(dtype) for v in views]
    half, single = (
        value_and_gradient(copy.deepcopy(criterion), views),
        value_and_gradient(criterion, [v.float() for v in views]),
    )
    torch.testing.assert_close(half[0], single[0], rtol=0, atol=0)
    assert [g.dtype for g in half[1:]] == [dtype, dtype]
    for ours, expected in zip(half[1:], single[1:], strict=True):
        torch.testing.assert_close(ours, expected.to(dtype), rtol=0, atol=0)


def test_survives_deepcopy_and_pickle(criterion, views):
    expected = copy.deepcopy(criterion)(*views)
    torch.testing.assert_close(pickle.loads(pickle.dumps(criterion))(*views), expected)
    file = io.BytesIO()
    torch.save(criterion, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(*views), expected)


def test_state_dict_continues_where_it_stopped(criterion, views):
    criterion(*views)
    state = copy.deepcopy(criterion.state_dict())
    later = [3 * v for v in views]
    expected = criterion(*later)
    fresh = like(criterion)
    fresh.load_state_dict(state)
    torch.testing.assert_close(fresh(*later), expected)


def like(criterion):
    return next(make() for make in LOSSES.values() if repr(make()) == repr(criterion))


def test_has_state_only_where_something_is_learnt_or_remembered():
    assert not LOSSES["rbf"]().state_dict()
    assert list(LOSSES["smoothed"]().state_dict()) == ["kernel.gamma.running"]
    assert list(LOSSES["mixture"]().state_dict()) == ["kernel.logits"]


def test_moves_to_a_device_and_a_dtype(criterion, views):
    assert copy.deepcopy(criterion).double()(*views).dtype == torch.float64
    # no accelerator here: "meta" shows that everything that must move does
    assert {t.device.type for t in criterion.to("meta").state_dict().values()} <= {"meta"}


def test_grad_of_torch_func(criterion, views):
    expected = value_and_gradient(copy.deepcopy(criterion), views)
    with torch.no_grad():  # a smoothed bandwidth must not be moved inside the transform
        ours = torch.func.grad(criterion.eval(), argnums=(0, 1))(*views)
    torch.testing.assert_close(ours, expected[1:])


def test_vmap_over_many_losses(criterion, views):
    criterion.eval()
    x, y = torch.stack([*views, 2 * views[0]]), torch.stack([views[1], 0.5 * views[0], views[1]])
    torch.testing.assert_close(
        torch.func.vmap(criterion)(x, y), torch.stack([criterion(a, b) for a, b in zip(x, y, strict=True)])
    )
    per_batch = torch.func.vmap(torch.func.grad(criterion))(x, y)
    torch.testing.assert_close(
        per_batch, torch.stack([torch.func.grad(criterion)(a, b) for a, b in zip(x, y, strict=True)])
    )


def test_views_that_are_not_contiguous(criterion, views):
    crooked = [v.T.contiguous().T for v in views]
    torch.testing.assert_close(copy.deepcopy(criterion)(*crooked), criterion(*views))


def test_repr_tells_the_settings(criterion):
    text = repr(criterion)
    for setting in ("invariance_weight=", "threshold=1", "eps=0.0001", "gather=True"):
        assert setting in text


def test_no_gradient_is_kept_where_none_is_asked(criterion, views):
    assert not criterion.requires_grad_(False)(*views).requires_grad
    with torch.no_grad():
        assert not criterion(*[v.requires_grad_() for v in views]).requires_grad
