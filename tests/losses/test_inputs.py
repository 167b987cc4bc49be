"""Bad input is refused at the door, by name, and says what to do."""

import math

import pytest
import torch

from kvicreg import KernelVICRegLoss, VICRegLoss, kernels
from kvicreg.losses.terms import check_views

LOSSES = [KernelVICRegLoss("rbf"), KernelVICRegLoss("linear"), KernelVICRegLoss("rbf", "paper"), VICRegLoss()]


def z(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.fixture(params=LOSSES, ids=["kernel", "linear", "paper", "vicreg"])
def criterion(request):
    return request.param


def test_one_sample(criterion):
    with pytest.raises(ValueError, match="at least two samples"):
        criterion(z(1, 4), z(1, 4))


def test_one_view(criterion):
    with pytest.raises(ValueError, match=r"at least two embeddings, got 1; pass them one by one, as in loss\(z1, z2\)"):
        criterion(z(8, 4))


def test_no_view(criterion):
    with pytest.raises(ValueError, match="at least two embeddings, got 0"):
        criterion()


@pytest.mark.parametrize("other", [(7, 4), (8, 5)])
def test_different_shapes(criterion, other):
    with pytest.raises(ValueError, match=rf"view 1 is \(8, 4\), view 2 is \({other[0]}, {other[1]}\)"):
        criterion(z(8, 4), z(*other))


def test_a_third_view_of_another_shape(criterion):
    with pytest.raises(ValueError, match=r"view 1 is \(8, 4\), view 3 is \(8, 2\)"):
        criterion(z(8, 4), z(8, 4), z(8, 2))


@pytest.mark.parametrize("shape", [(8,), (8, 4, 2), ()])
def test_wrong_rank(criterion, shape):
    with pytest.raises(ValueError, match=r"view 1 must have shape \(b, p\), got"):
        criterion(z(*shape), z(*shape))


@pytest.mark.parametrize("shape", [(0, 4), (8, 0)])
def test_nothing_at_all(criterion, shape):
    with pytest.raises(ValueError, match="the views are empty"):
        criterion(z(*shape), z(*shape))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_counted_in_their_view(criterion, bad):
    second = z(8, 4)
    second[2, 1] = second[2, 3] = second[5, 0] = bad
    with pytest.raises(ValueError, match="view 2 has 3 NaN or infinite values, in 2 of its 8 rows"):
        criterion(z(8, 4), second)


def test_infinities_that_cancel_are_found(criterion):
    first = z(8, 4)
    first[0, 0], first[1, 1] = math.inf, -math.inf
    with pytest.raises(ValueError, match="view 1 has 2 NaN or infinite values, in 2 of its 8 rows"):
        criterion(first, z(8, 4))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_what_is_not_floating_point(criterion, dtype):
    with pytest.raises(TypeError, match=r"view 2 must be a floating-point tensor, got .*; convert it"):
        criterion(z(8, 4), torch.ones(8, 4, dtype=dtype))


@pytest.mark.parametrize("wrong", [[[1.0, 2.0]], None, 3.0])
def test_what_is_not_a_tensor(criterion, wrong):
    with pytest.raises(TypeError, match=f"view 1 must be a torch.Tensor, got {type(wrong).__name__}"):
        criterion(wrong, z(8, 4))


def test_different_devices(criterion):
    with pytest.raises(ValueError, match="view 1 is on cpu, view 2 on meta"):
        criterion(z(8, 4), torch.empty(8, 4, device="meta"))


@pytest.mark.parametrize("make", [KernelVICRegLoss, VICRegLoss])
@pytest.mark.parametrize("name", ["invariance_weight", "variance_weight", "covariance_weight", "threshold", "eps"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_settings_must_be_finite_and_not_negative(make, name, value):
    words = "at least 0" if math.isfinite(value) else "a finite number"
    with pytest.raises(ValueError, match=f"{name} must be {words}, got {value}"):
        make(**{name: value})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KernelVICRegLoss("rfb"), "unknown kernel 'rfb': did you mean 'rbf'"),
        (
            lambda: KernelVICRegLoss(parametrization="papers"),
            "parametrization: expected one of scaled, paper, got 'papers'; did you mean 'paper'",
        ),
        (lambda: KernelVICRegLoss(covariance="square"), "covariance: expected one of norm, squared, got 'square'"),
        (lambda: VICRegLoss("solo"), "convention: expected one of official, solo-learn, paper, got 'solo'"),
    ],
)
def test_unknown_names(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_things_of_the_wrong_kind():
    with pytest.raises(TypeError, match=r"kernel must be a name or a kernels\.Kernel, got int"):
        KernelVICRegLoss(3)
    with pytest.raises(TypeError, match=r"got the class: write RBF\(\)"):
        KernelVICRegLoss(kernels.RBF)
    with pytest.raises(TypeError, match=r"approximation must be None, operators.Nystrom"):
        KernelVICRegLoss(approximation=64)


def test_views_of_different_precision_meet_in_the_higher():
    mixed = KernelVICRegLoss(kernels.RBF(0.2))(z(8, 4).half(), z(8, 4).double())
    assert mixed.dtype == torch.float64
    torch.testing.assert_close(mixed, KernelVICRegLoss(kernels.RBF(0.2))(z(8, 4).half().double(), z(8, 4).double()))


def test_numbers_on_another_device_are_not_waited_for():
    # "meta" has no numbers to look at: looking would fail, as it would stall a CUDA device
    views = [torch.empty(4, 3, device="meta") for _ in range(2)]
    assert [view.device.type for view in check_views(views)] == ["meta", "meta"]
