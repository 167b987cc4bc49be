"""The alarm speaks when a spectrum is sick, says what to try, and is silent when it is well."""

from __future__ import annotations

import pytest
import torch

from kvicreg import kernels
from kvicreg.measures.neighbours import knn_predictions
from kvicreg.training.alarm import warnings
from kvicreg.training.monitor import ridge_accuracy, spectrum


def embeddings(rank: int = 32, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return scale * torch.randn(64, rank, generator=generator) @ torch.eye(rank, 32)


def test_healthy_embeddings_raise_no_alarm():
    now = spectrum(embeddings(), kernels.RBF())
    assert warnings(now, now) == []


def test_collapse_is_told_by_the_effective_rank():
    now = spectrum(embeddings(rank=1), kernels.Linear())
    assert now.effective_rank == pytest.approx(1, abs=0.01)
    assert "collapse: effective rank 1.0" in warnings(now)[0]
    assert "variance_weight" in warnings(now)[0]


def test_exact_collapse_is_told():
    assert "collapse" in warnings(spectrum(torch.ones(16, 4), kernels.RBF()))[0]


def test_shrinking_is_told_although_the_median_hides_it_from_the_loss():
    first, now = (spectrum(embeddings(scale=s), kernels.RBF()) for s in (1.0, 1e-3))
    assert now.effective_rank == pytest.approx(first.effective_rank, rel=1e-3)
    assert "shrink" in " ".join(warnings(now, first))


def test_blowing_up_is_told():
    first, now = (spectrum(embeddings(scale=s), kernels.RBF()) for s in (1.0, 1e5))
    assert "blow up" in " ".join(warnings(now, first))


@pytest.mark.parametrize(("gamma", "word"), [(1e3, "unrelated"), (1e-6, "the same")])
def test_a_saturated_bandwidth_is_told(gamma, word):
    said = " ".join(warnings(spectrum(embeddings(), kernels.RBF(gamma=gamma))))
    assert "bandwidth saturates" in said
    assert word in said


def neighbour_accuracy(train_x, train_y, test_x, test_y):
    return (knn_predictions(train_x, train_y, test_x, k=5) == test_y).float().mean()


def test_online_probes_separate_what_is_separable_and_nothing_else():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 4
    x = 3 * torch.eye(4, 8)[y] + 0.1 * torch.randn(200, 8, generator=generator)
    noise = torch.randn(200, 8, generator=generator)
    for accuracy in (ridge_accuracy, neighbour_accuracy):
        assert accuracy(x[:100], y[:100], x[100:], y[100:]) == 1.0
        assert accuracy(noise[:100], y[:100], noise[100:], y[100:]) < 0.5
