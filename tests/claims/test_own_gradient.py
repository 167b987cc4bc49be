"""The gradient of the loss is that of the number it prints.

1. With a fixed scale, or with the mean distance for a bandwidth, the gradient equals finite differences of the loss,
   for every kernel with a bandwidth, either spectrum and either parametrization.
2. The median is held constant within a step, and says so; the gradient is then not the printed loss's.
3. With the mean distance embeddings have no gradient along their own scale; with the median they have.
4. On a fixed batch the loss falls with the mean distance, which is the default, for every kernel, and the scale of
   embeddings stays.
5. Where a scale comes from a few rows of the batch, it is constant within a step whichever rule it follows.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from noisy_views import views

from kvicreg import KernelVICRegLoss, kernels, operators

KERNELS = ["rbf", "laplacian", "rq", "inverse_multiquadric", "multi_rbf", "rbf+linear", "rbf*laplacian"]


def kernel_with(name: str, gamma: object) -> kernels.Kernel:
    if "*" in name:
        first, second = name.split("*")
        return kernel_with(first, gamma) * kernel_with(second, gamma)
    if "+" in name:
        return kernels.RBF(gamma) + kernels.Linear()
    if name == "multi_rbf":
        return kernels.multi_rbf(gamma)
    made = {"rbf": kernels.RBF, "laplacian": kernels.Laplacian, "rq": kernels.RationalQuadratic}
    return made.get(name, kernels.InverseMultiquadric)(gamma)


def difference(criterion, zs, i, j, step=1e-6):
    moved = torch.zeros_like(zs[0])
    moved[i, j] = step
    return (criterion(zs[0] + moved, zs[1]) - criterion(zs[0] - moved, zs[1])) / (2 * step)


def gradient_of(criterion, zs):
    leaves = [z.clone().requires_grad_() for z in zs]
    return torch.autograd.grad(criterion(*leaves), leaves)


@pytest.mark.parametrize("form", ["per-view", "shared", "paper"])
@pytest.mark.parametrize("gamma", [0.3, "mean"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_gradient_is_that_of_the_printed_loss(name, gamma, form):  # claim 1
    settings = {"parametrization": "paper"} if form == "paper" else {"spectrum": form}
    criterion, zs = KernelVICRegLoss(kernel_with(name, gamma), **settings), views(2, 8, 3)
    gradient = gradient_of(criterion, zs)[0]
    for i, j in ((0, 0), (3, 1), (7, 2)):
        expected = difference(criterion, zs, i, j)
        assert gradient[i, j].item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-7)


def test_the_median_is_held_constant_and_says_so():  # claim 2
    assert not kernels.Median.has_gradient
    assert kernels.Mean.has_gradient
    criterion, zs = KernelVICRegLoss(kernels.RBF("median")), views(2, 8, 3)
    along = sum((z * g).sum() for z, g in zip(zs, gradient_of(criterion, zs), strict=True))
    torch.testing.assert_close(criterion(*(1.1 * z for z in zs)), criterion(*zs))  # the value does not change
    assert abs(float(along)) > 1e-3


@pytest.mark.parametrize("name", KERNELS[:4])
def test_only_with_the_mean_distance_is_there_no_gradient_along_the_scale(name):  # claim 3
    zs = views(2, 8, 3)
    along = {}
    for gamma in ("mean", "median"):
        gradients = gradient_of(KernelVICRegLoss(kernel_with(name, gamma)), zs)
        along[gamma] = sum((z * g).sum() for z, g in zip(zs, gradients, strict=True))
    assert abs(float(along["mean"])) < 1e-9
    assert abs(float(along["median"])) > 1e-3


@pytest.mark.parametrize("name", [*kernels.KERNELS.names(), "rbf+linear"])
def test_on_a_fixed_batch_the_loss_of_every_default_falls_and_the_scale_stays(name):  # claim 4
    zs = [z.clone().requires_grad_() for z in views(2, 24, 6)]
    criterion = KernelVICRegLoss(name)
    optimizer = torch.optim.SGD(zs, lr=1.0)
    before, losses = torch.cat(zs).std().item(), []
    for _ in range(40):
        loss = criterion(*zs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1
    assert max(after - former for former, after in pairwise(losses)) < 0.01
    assert torch.cat(zs).std().item() == pytest.approx(before, rel=0.2)


def test_a_scale_from_a_few_rows_is_constant():  # claim 5
    zs = views(2, 8, 3)
    approximate = KernelVICRegLoss(kernels.RBF("mean"), approximation=operators.RandomFourier(features=16))
    fixed = KernelVICRegLoss(
        kernels.RBF("mean").resolve(torch.stack(zs)), approximation=operators.RandomFourier(features=16)
    )
    torch.testing.assert_close(gradient_of(approximate, zs), gradient_of(fixed, zs))


def test_the_rule_is_a_setting():
    assert isinstance(kernels.make("rbf").gamma, kernels.Mean)
    assert type(kernels.make("rbf", bandwidth="median").gamma) is kernels.Median
    assert kernels.make("multi_rbf", bandwidth="mean").members()[0][1].gamma.has_gradient
    with pytest.raises(ValueError, match="with a fixed gamma nothing does"):
        kernels.make("rbf", bandwidth="median", gamma=1.0)
    with pytest.raises(ValueError, match="is read only with bandwidth median"):
        kernels.make("rbf", bandwidth_momentum=0.5)
