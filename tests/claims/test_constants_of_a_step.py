"""What a kernel takes from the batch (median, scales, neighbours) is constant in the step's gradient.

1. The gradient of the loss is that of the same loss with the kernel resolved beforehand, by finite differences: nothing
   flows through what was resolved, and everything flows through the rest. (Not so for the self-tuning kernel, whose
   local scales follow the points themselves, without a gradient.)
"""

from __future__ import annotations

import pytest
import torch

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.kernels.pairs import AllPairs


def by_median(name):
    """Its settings, with the median for a bandwidth where it has one."""
    has_bandwidth = "bandwidth" in kernels.KERNELS.find(name).of().flat()
    return {"kernel": name} | ({"bandwidth": "median"} if has_bandwidth else {})


KERNELS = {
    **{name: by_median(name) for name in kernels.KERNELS.names() if name != "self_tuning"},
    "per dimension": {"kernel": "rbf", "bandwidth": "median", "per_dimension": True},
    "linear per dimension": {"kernel": "linear", "per_dimension": True},
    "mixture per dimension": {"kernel": "rbf+linear", "bandwidth": "median", "per_dimension": True},
    "mixture": {"kernel": "0.3*laplacian+0.7*polynomial", "bandwidth": "median"},
}


@pytest.mark.parametrize("spectrum", ["per-view", "shared"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_gradient_is_that_of_the_resolved_kernel(name, spectrum):
    settings = dict(KERNELS[name])
    kernel = kernels.make(settings.pop("kernel"), **settings)
    generator = torch.Generator().manual_seed(0)
    scales = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    base = torch.randn(7, 3, generator=generator, dtype=torch.float64) * scales
    views = [base + 0.3 * torch.randn(7, 3, generator=generator, dtype=torch.float64) for _ in range(2)]
    fixed = KernelVICRegLoss(kernel.resolve(AllPairs(torch.stack(views))), spectrum=spectrum)
    leaves = [view.clone().requires_grad_() for view in views]
    gradient = torch.autograd.grad(KernelVICRegLoss(kernel, spectrum=spectrum)(*leaves), leaves)[0]
    step = 1e-6
    for i, j in ((0, 0), (3, 1), (6, 2)):
        moved = torch.zeros_like(views[0])
        moved[i, j] = step
        difference = fixed(views[0] + moved, views[1]) - fixed(views[0] - moved, views[1])
        assert gradient[i, j].item() == pytest.approx(difference.item() / (2 * step), rel=1e-5, abs=1e-7)
