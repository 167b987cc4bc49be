"""The kernel, the method and the source are right, and kvicreg finds them by name."""

import math

import pytest
import torch
from kvicreg_example.kernel import DoubleExponential
from kvicreg_example.method import CodingRateLoss

from kvicreg import KernelVICRegLoss
from kvicreg.data import load
from kvicreg.runs import Settings


def test_the_kernel_is_its_formula():
    gram = DoubleExponential(gamma=0.5)(torch.tensor([[0.0], [2.0]], dtype=torch.float64))
    assert gram[0, 1].item() == pytest.approx(math.exp(math.exp(-2) - 1))
    assert isinstance(KernelVICRegLoss("double_exponential").kernel, DoubleExponential)


def test_the_rate_of_orthogonal_embeddings():
    z = torch.eye(4, dtype=torch.float64)
    terms = CodingRateLoss(distortion=0.5).terms(z, z)
    assert terms.rate.item() == pytest.approx(2 * math.log(1 + 1 / 0.25))
    assert terms.disagreement.item() == pytest.approx(0, abs=1e-12)
    assert Settings.of(method="rate", distortion=0.1).method.loss.distortion == 0.1


def test_images_are_given_by_index():
    data = load("stripes:20")
    assert len(data) == 20
    assert torch.equal(data.fetch(torch.tensor([7, 3]))[1], data.subset([3]).fetch(torch.tensor([0]))[0])
