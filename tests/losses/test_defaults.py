"""The constants that a loss has unless told otherwise, number by number: published results rest on them."""

import pytest
import torch

from kvicreg import kernels, losses
from kvicreg.losses import KernelVICRegLoss, VICRegLoss
from kvicreg.methods import METHODS
from kvicreg.options import Values


@pytest.mark.parametrize(
    ("settings", "weights", "threshold"),
    [
        ({}, (2.0, 1.0, 0.02), 1.5),
        ({"spectrum": "per-view"}, (1.0, 1.0, 0.02), 1.5),
        ({"parametrization": "paper"}, (0.5, 1.0, 2.0), 1.0),
    ],
    ids=["scaled", "per-view", "paper"],
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


REPRS = {
    losses.KernelVICRegLoss: "parametrization='scaled', spectrum='shared', invariance_weight=2, variance_weight=1, "
    "covariance_weight=0.02, threshold=1.5, eps=0.0001, covariance='norm', include_diagonal=False, gather=True",
    losses.VICRegLoss: "convention='official', invariance_weight=25, variance_weight=25, covariance_weight=1, "
    "threshold=1, eps=0.0001, gather=True",
    losses.BarlowTwinsLoss: "redundancy_weight=0.0051, eps=1e-05, gather=True",
    losses.KernelBarlowTwinsLoss: "basis='free', redundancy_weight=0.1, eps=1e-05",
    losses.NTXentLoss: "temperature=0.2, gather=True",
    losses.KernelSimCLRLoss: "temperature=0.2, gather=True",
    losses.InfoNCELoss: "temperature=0.2",
    losses.SwAVLoss: "temperature=0.1, epsilon=0.05, iterations=3",
    losses.DINOLoss: "temperature=0.1, teacher_temperature=0.04",
    losses.KernelBYOLLoss: "gather=True",
    losses.SSLHSICLoss: "hsic_weight=3, gather=True",
    losses.CodingRateLoss: "similarity_weight=200, distortion=0.2",
    losses.KerJEPALoss: "discrepancy='mmd', weight=0.05, gather=True",
    losses.LeJEPALoss: "sigreg_weight=0.05, gather=True",
    losses.VISRegLoss: "scale_weight=1, shape_weight=1, gather=True",
    losses.WMSELoss: "eps=0.001, gather=True",
    losses.FroSSLLoss: "invariance_weight=1",
}


@pytest.mark.parametrize("loss", REPRS, ids=lambda loss: loss.__name__)
def test_a_loss_shows_its_settings(loss):
    assert loss().extra_repr() == REPRS[loss]


FUNCTIONS = {
    "nt_xent": (lambda *v: losses.nt_xent(*v), losses.NTXentLoss()),
    "kernel_simclr": (lambda *v: losses.kernel_simclr(*v, kernel=kernels.RBF()), losses.KernelSimCLRLoss()),
    "barlow_twins": (lambda *v: losses.barlow_twins_terms(*v).total, losses.BarlowTwinsLoss()),
    "swav": (lambda *v: losses.swav(*v), losses.SwAVLoss()),
    "ssl_hsic": (lambda *v: losses.ssl_hsic_terms(*v).total, losses.SSLHSICLoss()),
    "vicreg": (lambda *v: losses.vicreg_terms(*v).total, losses.VICRegLoss()),
    "kernel_vicreg": (lambda *v: losses.kernel_vicreg_terms(*v, kernel=kernels.RBF()).total, losses.KernelVICRegLoss()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_defaults_of_its_module(name):
    function, module = FUNCTIONS[name]
    views = torch.randn(2, 12, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(function(*views), module(*views))
