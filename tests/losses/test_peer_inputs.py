"""The peers' losses refuse bad input by name, and run in at least float32 whatever comes in."""

import pytest
import torch

from kvicreg import losses

TWO_VIEWS = [
    losses.NTXentLoss(),
    losses.KernelSimCLRLoss("laplacian"),
    losses.BarlowTwinsLoss(),
    losses.KernelBarlowTwinsLoss("rq"),
    losses.SSLHSICLoss(),
    losses.SwAVLoss(),
]
FOUR = [losses.BYOLLoss(), losses.SimSiamLoss(), losses.KernelBYOLLoss("rbf")]


def name(loss):
    return type(loss).__name__


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
def test_views_of_different_shapes_are_named(loss):
    views = [torch.randn(6, 4) for _ in range(4 if loss in FOUR else 2)]
    views[1] = torch.randn(5, 4)
    with pytest.raises(ValueError, match="view 2 is"):
        loss(*views)


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
def test_values_that_are_not_finite_are_named(loss):
    views = list(torch.randn(4 if loss in FOUR else 2, 6, 4))
    views[0][2, 1] = float("nan")
    with pytest.raises(ValueError, match="view 1 has 1 NaN"):
        loss(*views)


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_result_is_a_finite_scalar_of_at_least_float32(loss, dtype):
    views = torch.randn(4 if loss in FOUR else 2, 6, 4).to(dtype).unbind()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(*views)
    assert value.shape == ()
    assert value.isfinite()
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
def test_gradients_are_finite_at_collapse(loss):
    views = [torch.ones(6, 4, requires_grad=True) for _ in range(4 if loss in FOUR else 2)]
    loss(*views).backward()
    assert all(view.grad is None or view.grad.isfinite().all() for view in views)


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
def test_embeddings_of_zero_have_finite_losses_and_gradients(loss):
    views = [torch.zeros(6, 4, requires_grad=True) for _ in range(4 if loss in FOUR else 2)]
    value = loss(*views)
    value.backward()
    assert value.isfinite()
    assert all(view.grad is None or view.grad.isfinite().all() for view in views)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: losses.NTXentLoss(temperature=0), "temperature"),
        (lambda: losses.InfoNCELoss(temperature=float("nan")), "temperature"),
        (lambda: losses.SwAVLoss(epsilon=-1), "epsilon"),
        (lambda: losses.DINOLoss(teacher_temperature=0), "teacher_temperature"),
        (lambda: losses.BarlowTwinsLoss(redundancy_weight=-1), "redundancy_weight"),
        (lambda: losses.KernelBarlowTwinsLoss(basis="fourier"), "basis"),
        (lambda: losses.SSLHSICLoss(hsic_weight=-3), "hsic_weight"),
    ],
)
def test_bad_settings_are_named(make, named):
    with pytest.raises(ValueError, match=named):
        make()


@pytest.mark.parametrize("make", [losses.KernelSimCLRLoss, losses.KernelBYOLLoss, losses.KernelBarlowTwinsLoss])
def test_an_approximation_is_an_object(make):
    with pytest.raises(TypeError, match="operators.Nystrom"):
        make(approximation="nystrom")


def test_negatives_of_another_width_are_named():
    with pytest.raises(ValueError, match="negatives must have shape"):
        losses.info_nce(torch.randn(4, 3), torch.randn(4, 3), torch.randn(9, 2))
