"""Learning the shares of a mixture.

1. A constant kernel and an identity have a gap of 0, and no kernel has one above 1.
2. The shares settle at softmax(gap / temperature), where the gaps stay.
3. Shares that descend the loss flee into trivial members; those that follow the pairs do not, and give the network
   what the good member alone gives.
4. The shares get no gradient from the loss, and the network none from the shares' aim.
"""

import numpy as np
import pytest
import torch

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.losses.mixture import TEMPERATURE, pair_gap
from kvicreg.operators import covariance_operator

G = torch.Generator().manual_seed(0)
BASE = torch.randn(40, 6, generator=G, dtype=torch.float64)
VIEWS = torch.stack([BASE + 0.3 * torch.randn(40, 6, generator=G, dtype=torch.float64) for _ in range(2)])


def numpy_gap(gamma):
    x, y = VIEWS.numpy()
    same = np.exp(-gamma * ((x - y) ** 2).sum(1)).mean()
    upper = np.triu_indices(len(x), 1)
    different = np.mean([np.exp(-gamma * ((v[:, None] - v[None]) ** 2).sum(-1))[upper].mean() for v in (x, y)])
    return (same - different) / max(1 - different, 0.5)


@pytest.mark.parametrize("gamma", [1e-4, 0.01, 0.1, 1.0])
def test_gap_is_that_of_plain_numpy(gamma):
    assert float(pair_gap(kernels.RBF(gamma), VIEWS)) == pytest.approx(numpy_gap(gamma), rel=1e-9)


def test_trivial_kernels_have_no_gap():  # claim 1
    assert float(pair_gap(kernels.RBF(1e-9), VIEWS)) == pytest.approx(0, abs=1e-6)
    assert float(pair_gap(kernels.RBF(1e6), VIEWS)) == pytest.approx(0, abs=1e-6)
    assert float(pair_gap(kernels.Polynomial(1, coef0=1e9), VIEWS)) <= 1
    for name in ("linear", "polynomial", "rbf", "laplacian", "rq", "self-tuning"):
        same = kernels.get(name).resolve(VIEWS[0], VIEWS[0])
        assert 0.9 < float(pair_gap(same, torch.stack([VIEWS[0], VIEWS[0]]))) <= 1 + 1e-9


def test_shares_settle_where_the_derivation_says():  # claim 2
    members = [kernels.RBF(0.02), kernels.RBF(0.1), kernels.Linear(), kernels.RBF(5.0)]
    criterion = KernelVICRegLoss(kernels.Mixture(members, learnable=True).double())
    gaps = torch.stack([pair_gap(member, VIEWS) for member in members])
    criterion.kernel.logits.data = gaps / TEMPERATURE
    criterion(*VIEWS).backward()
    torch.testing.assert_close(criterion.kernel.logits.grad, torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-12)
    for shift in torch.eye(4, dtype=torch.float64):  # more than its due of any member is descended again
        criterion.kernel.logits.data, criterion.kernel.logits.grad = gaps / TEMPERATURE + shift, None
        criterion(*VIEWS).backward()
        assert float(criterion.kernel.logits.grad @ shift) > 0


def trained(rule, invariance_weight, steps=150):
    """Shares of (constant, median, identity) after training a small network on clusters, and its effective rank."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
    members = [kernels.RBF(kernels.Median(multiple)) for multiple in (100.0, 1.0, 0.02)]
    mixture = kernels.Mixture(members, learnable=True)
    weights = {"invariance_weight": invariance_weight, "spectrum": "per-view"}
    criterion = KernelVICRegLoss(mixture, learn_mixture_by=rule, **weights)
    optimizer = torch.optim.Adam([{"params": network.parameters()}, {"params": [mixture.logits], "lr": 0.03}], lr=1e-3)
    centres = torch.randn(40, 16)
    for _ in range(steps):
        x = centres[torch.randint(40, (64,))] + 0.3 * torch.randn(64, 16)
        z1, z2 = (network(x + 0.3 * torch.randn_like(x)) for _ in range(2))
        optimizer.zero_grad()
        criterion(z1, z2).backward()
        optimizer.step()
    return torch.stack(mixture.weights).detach(), float(covariance_operator(z1.detach(), "rbf").effective_rank())


@pytest.mark.parametrize("invariance_weight", [0.1, 10.0])
def test_shares_do_not_escape_into_the_easiest_kernel(invariance_weight):  # claim 3
    by_loss, _ = trained("loss", invariance_weight)
    by_pairs, rank = trained("pairs", invariance_weight)
    assert float(by_loss[0] + by_loss[2]) > 0.5, "the case must be one where descending the loss escapes"
    assert float(by_pairs[0] + by_pairs[2]) < 0.05
    assert rank > 15


def test_network_and_shares_do_not_see_each_others_aims():  # claim 4
    mixture = kernels.Mixture([kernels.RBF(), kernels.Linear()], weights=[1, 2], learnable=True)
    fixed = kernels.Mixture([kernels.RBF(), kernels.Linear()], weights=[1, 2])
    z = VIEWS.clone().requires_grad_()
    loss = KernelVICRegLoss(mixture)(*z)
    expected = KernelVICRegLoss(fixed)(*z)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(*(torch.autograd.grad(each, z, retain_graph=True)[0] for each in (loss, expected)))
    one, other = (
        torch.autograd.grad(KernelVICRegLoss(mixture, invariance_weight=alpha)(*z), mixture.logits)[0]
        for alpha in (0.1, 10.0)
    )
    torch.testing.assert_close(one, other)
