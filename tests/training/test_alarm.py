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


@pytest.mark.parametrize(
    ("kernel", "follows"),
    [(kernels.RBF("mean"), True), (kernels.RBF("median"), True), (kernels.RBF(0.1), False), (None, False)],
)
def test_shrinking_is_told_and_whether_the_bandwidth_hides_it_from_the_loss(kernel, follows):
    first, now = (spectrum(embeddings(scale=s), kernel) for s in (1.0, 1e-3))
    if follows:
        assert now.effective_rank == pytest.approx(first.effective_rank, rel=1e-3)
    said = " ".join(warnings(now, first, bounded=False))
    assert "the embeddings shrink: their scale is 0.001" in said
    assert ("which a bandwidth that follows the batch hides" in said) is follows
    assert ("gamma" in said) is follows


def test_blowing_up_is_told():
    first, now = (spectrum(embeddings(scale=s), kernels.RBF()) for s in (1.0, 1e5))
    assert "blow up" in " ".join(warnings(now, first))


@pytest.mark.parametrize(("gamma", "word"), [(1e3, "unrelated"), (1e-6, "the same")])
def test_a_saturated_bandwidth_is_told(gamma, word):
    said = " ".join(warnings(spectrum(embeddings(), kernels.RBF(gamma=gamma))))
    assert "bandwidth saturates" in said
    assert word in said
    assert f"gamma {gamma:.3g}" in said


def test_a_mixture_has_several_bandwidths_and_no_number_of_one():
    mixture = kernels.Mixture([kernels.RBF(gamma=1e3), kernels.Laplacian(gamma=1e3)])
    said = " ".join(warnings(spectrum(embeddings(), mixture)))
    assert "the bandwidth saturates: it makes every two images unrelated" in said


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
