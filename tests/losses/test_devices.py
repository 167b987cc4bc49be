"""Losses stay on the device of their views and never wait for it.

"meta" stands for an accelerator: its tensors have no numbers, so that looking at one fails where CUDA would stall, and
they do not mix with those of the CPU.
"""

import pytest
import torch

from kvicreg import KernelVICRegLoss, losses, operators
from tests.losses.every_loss import LOSSES

KERNELS = ("linear", "polynomial", "rbf", "laplacian", "rq", "rbf+linear")


def views(count=2):
    return [torch.empty(12, 4, device="meta", requires_grad=True) for _ in range(count)]


def check(value, inputs):
    value.backward()
    assert (value.device.type, value.shape) == ("meta", ())
    assert {x.grad.device.type for x in inputs if x.grad is not None} == {"meta"}


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_of_a_loss(name):
    inputs = views()
    check(LOSSES[name]().to("meta")(*inputs), inputs)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_step_with_every_kernel(kernel):
    inputs = views(3)
    check(KernelVICRegLoss(kernel)(*inputs), inputs)


APPROXIMATIONS = [
    *(operators.Nystrom(5, choice) for choice in ("uniform", "kmeans++", "leverage")),
    *(operators.RandomFourier(6, form, orthogonal) for form in ("paired", "cosine") for orthogonal in (False, True)),
]


@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=repr)
@pytest.mark.parametrize("kernel", ["rbf", "rbf+laplacian"])
def test_a_step_with_every_approximation(kernel, approximation):
    inputs = views()
    check(KernelVICRegLoss(kernel, approximation=approximation)(*inputs), inputs)


@pytest.mark.parametrize("solver", ["eigh", "products"])
@pytest.mark.parametrize("parametrization", ["scaled", "paper"])
def test_a_step_with_every_solver(parametrization, solver):
    inputs = views()
    check(KernelVICRegLoss("rbf", parametrization, solver=solver)(*inputs), inputs)


@pytest.mark.parametrize("make", [losses.BYOLLoss, losses.SimSiamLoss, losses.KernelBYOLLoss])
def test_a_step_of_predictions(make):
    inputs = views(4)
    check(make()(*inputs), inputs)


def test_a_step_of_contrasts_with_a_queue():
    inputs = views(3)
    check(losses.InfoNCELoss()(*inputs), inputs)


def test_a_step_of_a_teacher():
    inputs, teacher = views(2), torch.empty(2, 12, 4, device="meta")
    check(losses.DINOLoss(4).to("meta")(teacher, *inputs), inputs)
