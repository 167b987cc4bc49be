"""The learning rate is a pure function of the step; LARS is its formula; what is decayed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from kvicreg.optimizers import LARS
from kvicreg.runs import Settings
from kvicreg.training.schedule import learning_rate


def test_learning_rate_rises_to_the_peak_then_falls_along_half_a_cosine():
    rates = [learning_rate(s, total=100, warmup=10, peak=2.0, final=0.5) for s in range(101)]
    assert rates[0] == pytest.approx(2.0 / 11)
    assert max(rates) == rates[10] == 2.0
    assert rates[55] == pytest.approx(1.25)  # half way: the mean of peak and final
    assert rates[100] == pytest.approx(0.5)
    assert rates[33] == pytest.approx(0.5 + 0.75 * (1 + math.cos(math.pi * 23 / 90)))


def test_lars_takes_the_step_of_its_formula():
    generator = np.random.default_rng(0)
    w, g = generator.normal(size=(3, 4)), generator.normal(size=(3, 4))
    parameter = nn.Parameter(torch.tensor(w))
    optimizer = LARS([parameter], lr=0.5, momentum=0.9, weight_decay=0.1, trust=0.02)
    velocity = np.zeros_like(w)
    for _ in range(3):
        parameter.grad = torch.tensor(g)
        optimizer.step()
        decayed = g + 0.1 * w
        velocity = 0.9 * velocity + 0.02 * np.linalg.norm(w) / np.linalg.norm(decayed) * decayed
        w = w - 0.5 * velocity
    np.testing.assert_allclose(parameter.detach().numpy(), w, rtol=1e-12)


def test_lars_leaves_biases_unscaled_and_survives_zero_weights():
    bias, zero = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(2, 2))
    optimizer = LARS([bias, zero], lr=1.0, momentum=0.0)
    bias.grad, zero.grad = torch.full((3,), 0.25), torch.ones(2, 2)
    optimizer.step()
    torch.testing.assert_close(bias.detach(), torch.full((3,), 0.75))
    torch.testing.assert_close(zero.detach(), -torch.ones(2, 2))


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "lars"])
def test_biases_and_normalisation_are_not_decayed(name):
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = Settings.of(optimizer=name, weight_decay=0.3).optimizer.build(net)
    decays = {p.ndim: g["weight_decay"] for g in optimizer.param_groups for p in g["params"]}
    assert decays == {2: 0.3, 1: 0.0}
    assert type(optimizer).__name__.lower() == name
