"""The constants that a loss has unless told otherwise, number by number: published results rest on them."""

import pytest

from kvicreg.losses import KernelVICRegLoss, VICRegLoss
from kvicreg.methods import METHODS
from kvicreg.options import Values


@pytest.mark.parametrize(
    ("settings", "weights", "threshold"),
    [
        ({}, (1.0, 1.0, 0.02), 1.5),
        ({"spectrum": "shared"}, (1.0, 2.0, 0.04), 1.5),
        ({"parametrization": "paper"}, (0.5, 1.0, 2.0), 1.0),
    ],
    ids=["scaled", "shared", "paper"],
)
def test_weights_of_kernel_vicreg(settings, weights, threshold):
    loss = KernelVICRegLoss(**settings)
    assert (loss.invariance_weight, loss.variance_weight, loss.covariance_weight) == weights
    assert (loss.threshold, loss.eps, loss.covariance, loss.include_diagonal) == (threshold, 1e-4, "norm", False)


def test_weights_of_vicreg_are_the_published_ones():
    loss = VICRegLoss()
    assert (loss.invariance_weight, loss.variance_weight, loss.covariance_weight) == (25.0, 25.0, 1.0)


@pytest.mark.parametrize(
    ("method", "constants"),
    [
        ("barlow-twins", {"redundancy_weight": 0.0051}),
        ("simclr", {"temperature": 0.2}),
        ("moco", {"temperature": 0.2}),
        ("swav", {"temperature": 0.1}),
        ("dino", {"temperature": 0.1, "teacher_temperature": 0.04}),
        ("ssl-hsic", {"hsic_weight": 3.0}),
    ],
)
def test_constants_of_the_peers(method, constants):
    settings = METHODS.read(method, Values({})).flat()
    assert {name: settings[name] for name in constants} == constants
