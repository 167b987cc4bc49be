"""A method is an encoder, a projector and a loss that the loop can step, log and keep."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kvicreg import KernelVICRegLoss, VICRegLoss
from kvicreg.methods import METHODS, Method
from kvicreg.models import Projector


@pytest.fixture(params=["kernel-vicreg", "vicreg"])
def method(request) -> Method:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(16, 8))
    return METHODS[request.param](encoder, Projector(8, 16, 12))


def views() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(32, 1, 4, 4, generator=generator) for _ in range(2)]


def test_a_step_gives_a_loss_with_gradients_and_detached_terms(method):
    result = method(views(), 0)
    result.loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in method.parameters())
    assert {"invariance", "variance", "covariance"} <= set(result.terms)
    assert not any(value.requires_grad for value in result.terms.values())
    assert result.embeddings.shape == (32, 12)
    assert not result.embeddings.requires_grad


def test_after_step_may_be_called_always(method):
    assert method.after_step(1, 10) is None


@pytest.mark.parametrize(("name", "loss"), [("kernel-vicreg", KernelVICRegLoss("rq")), ("vicreg", VICRegLoss())])
def test_the_loss_is_that_of_the_projected_views(name, loss):
    torch.manual_seed(0)
    encoder, projector = nn.Sequential(nn.Flatten(), nn.Linear(16, 8)), Projector(8, 16, 12, norm="group")
    z1, z2 = (projector(encoder(view)) for view in views())
    torch.testing.assert_close(METHODS[name](encoder, projector, loss)(views(), 0).loss, loss(z1, z2))
