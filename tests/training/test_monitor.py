"""What is measured between epochs is what formulas say, on the same images every time."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from pictures import CPU
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler
from torch import nn

from kvicreg import kernels
from kvicreg.data import Views, permutation
from kvicreg.measures.alignment import centred_alignment
from kvicreg.training import monitor
from kvicreg.training.monitor import FixedImages, kernel_of, mixture_shares, ridge_accuracy, spectrum


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Flat(nn.Module):
    """A method whose encoder flattens and whose projector doubles."""

    def __init__(self, loss=None):
        super().__init__()
        self.encoder, self.projector = nn.Sequential(nn.Flatten(), nn.Linear(256, 6)), nn.Linear(6, 4)
        self.loss = loss


def test_scale_similarity_and_bandwidth_are_their_formulas():
    z = random(9, 3) + 2
    kernel = kernels.RBF(gamma=0.2)
    found, gram = spectrum(z, kernel), kernel(z)
    assert found.embedding_scale == pytest.approx(float((z - z.mean(0)).square().mean().sqrt()))
    assert found.bandwidth == pytest.approx(0.2)
    assert found.similarity == pytest.approx(float((gram.sum() - 9) / 72))
    assert found.effective_rank_bound == 8
    linear = spectrum(z)
    assert math.isnan(spectrum(z, 0.5 * kernels.Linear() + kernel).bandwidth)
    products = z @ z.T
    off = (products.sum() - products.diagonal().sum()) / 72
    assert linear.similarity == pytest.approx(float(off / products.diagonal().mean()), rel=1e-5)
    assert linear.effective_rank_bound == 3
    assert spectrum(z.double()).eigenvalues.dtype == torch.float32


def test_a_method_without_a_kernel_has_none():
    kernel = kernels.Linear()
    assert kernel_of(SimpleNamespace(loss=SimpleNamespace(kernel=kernel))) is kernel
    assert kernel_of(SimpleNamespace(loss=SimpleNamespace())) is None
    assert kernel_of(SimpleNamespace()) is None
    assert mixture_shares(SimpleNamespace()) == {}
    assert mixture_shares(SimpleNamespace(loss=SimpleNamespace(kernel=kernel))) == {}


@pytest.mark.parametrize(("classes", "width"), [(2, 5), (4, 5), (4, 40)])  # 40: more features than images
def test_the_probe_is_a_ridge_regression_to_one_hot_labels(classes, width):
    x, labels = random(60, width) * torch.tensor([1.0, 5, 9, 0.1, 2]).repeat(width // 5) + 3, torch.arange(60) % classes
    x[:, ::5] += 0.8 * labels[:, None]
    train, test = slice(None, 30), slice(30, None)
    scaler = StandardScaler().fit(x[train])
    inputs = [scaler.transform(x[part]) * math.sqrt(29 / 30) for part in (train, test)]  # the deviation of a sample
    targets = nn.functional.one_hot(labels[train]).float()
    scores = Ridge(alpha=3.0).fit(inputs[0], targets).predict(inputs[1])
    expected = float((torch.as_tensor(scores).argmax(1) == labels[test]).float().mean())
    assert ridge_accuracy(x[train], labels[train], x[test], labels[test]) == pytest.approx(expected)
    assert 0.2 < expected < 1


def fixed_of(data, **given):
    return FixedImages(data, Views.of(data), **({"count": 10, "probe_count": 20, "seed": 3} | given))


def test_the_fixed_images_are_the_first_of_an_order_of_their_own(tiny_data):
    fixed = fixed_of(tiny_data)
    order = permutation(96, seed=3, epoch=-1)
    assert fixed.samples.equal(order[:10])
    assert fixed.images.equal(tiny_data.fetch(order[:10]))
    assert fixed.probe.fetch(torch.arange(20)).equal(tiny_data.fetch(order[:20]))
    assert fixed.probe.labels.equal(tiny_data.labels[order[:20]])
    assert fixed_of(tiny_data, probe_count=4).probe is not None
    assert fixed_of(tiny_data, probe_count=3).probe is None
    assert fixed_of(type(tiny_data)(tiny_data.images)).probe is None
    assert fixed_of(type(tiny_data)(tiny_data.images, torch.zeros(len(tiny_data)))).probe is None
    deep = type(tiny_data)(tiny_data.images.float() * 8, tiny_data.labels, intensity="0:4095")
    probe = fixed_of(deep).probe
    assert probe.fetch(torch.arange(20)).equal(deep.fetch(order[:20])), "they have been scaled once"


def test_spectrum_and_agreement_are_those_of_the_same_views_every_time(tiny_data):
    fixed, method = fixed_of(tiny_data), Flat(SimpleNamespace(kernel=kernels.RBF(gamma=0.3))).double()
    one, two = (fixed.views(fixed.images, fixed.samples, seed=3, epoch=0, view=view).double() for view in (0, 1))
    with torch.no_grad():
        z = method.projector(method.encoder(one))
        expected = spectrum(z, kernels.RBF(gamma=0.3))
        agreement = centred_alignment(method.encoder(one), method.encoder(two))
    found = fixed.spectrum(method, CPU)
    assert found.eigenvalues.equal(expected.eigenvalues)
    assert found[1:] == pytest.approx(expected[1:])
    assert fixed.agreement(method, CPU) == pytest.approx(agreement)
    assert method.training


def test_features_that_are_maps_are_flattened_to_be_compared(tiny_data):
    method = Flat()
    method.encoder = nn.Conv2d(1, 2, 3)
    (one, two) = fixed_of(tiny_data)._features_of_two_views(method, CPU)
    assert one.shape == two.shape == (10, 2 * 14 * 14)


class Loss:
    """The distance of two views, times two where it is approximated; across processes it would be wrong."""

    approximation, gather = "nystrom", True

    def terms(self, one, other):
        assert not self.gather
        distance = (one - other).square().mean()
        return SimpleNamespace(total=distance * (1.5 if self.approximation else -1))


def test_the_error_of_an_approximation_is_relative_and_leaves_the_loss_as_it_was(tiny_data):
    method = Flat(Loss())
    assert fixed_of(tiny_data).approximation_error(method, CPU) == {"approximation_error": pytest.approx(2.5)}
    assert (method.loss.approximation, method.loss.gather) == ("nystrom", True)
    assert fixed_of(tiny_data).approximation_error(Flat(SimpleNamespace()), CPU) == {}


def test_half_of_the_probes_images_fit_it_and_half_score_it(tiny_data, monkeypatch):
    fixed, method, asked = fixed_of(tiny_data, probe_count=21), Flat().double(), []
    neighbours = torch.tensor([0, 1, 2] * 4)[:11]
    monkeypatch.setattr(monitor, "knn_predictions", lambda *given, k: asked.append((given, k)) or neighbours)
    monkeypatch.setattr(monitor, "ridge_accuracy", lambda *given: asked.append(given) or 0.25)
    probe, knn = fixed.accuracies(method)
    with torch.no_grad():
        features = method.encoder(fixed.views.plain(fixed.probe.fetch(torch.arange(21))).double())
    (given, k), ridge = asked
    torch.testing.assert_close(ridge[0], features[:10], check_dtype=False)
    torch.testing.assert_close(ridge[2], features[10:], check_dtype=False)
    labels = fixed.probe.labels
    assert ridge[1].equal(labels[:10])
    assert ridge[3].equal(labels[10:])
    assert all(one.equal(other) for one, other in zip(given, ridge[:3], strict=True))
    assert (k, probe) == (5, 0.25)
    assert knn == pytest.approx(float((neighbours == labels[10:]).float().mean()))
    assert fixed_of(tiny_data, probe_count=0).accuracies(method) is None
