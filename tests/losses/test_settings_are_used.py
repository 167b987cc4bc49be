"""A setting that is given reaches what it sets: a loss with it is another loss, and its terms say so."""

from __future__ import annotations

import inspect

import pytest
import torch

from kvicreg import kernels, losses
from kvicreg.losses import KernelVICRegLoss, KernelVICRegOptions
from kvicreg.operators import CovarianceOperator, RandomFourier
from tests.losses.test_defaults import REPRS

FOUR_PARTS = (losses.KernelBYOLLoss,)
NOT_OF_TWO_VIEWS = (losses.InfoNCELoss, losses.DINOLoss)


def numbers(loss):
    """The settings of a loss that are numbers, each with another value."""
    for name, parameter in inspect.signature(loss).parameters.items():
        if type(parameter.default) is float and name != "group_weight":  # read only with groups
            yield name, parameter.default * 1.7
        elif type(parameter.default) is int:
            yield name, parameter.default + 2


def value(loss, **settings):
    torch.manual_seed(0)
    criterion = loss(**settings).eval()
    views = torch.randn(4 if loss in FOUR_PARTS else 2, 24, 8, dtype=torch.float64)
    return float(criterion(*views))


@pytest.mark.parametrize(
    ("loss", "name", "other"),
    [
        pytest.param(loss, name, other, id=f"{loss.__name__}-{name}")
        for loss in REPRS
        if loss not in NOT_OF_TWO_VIEWS
        for name, other in numbers(loss)
    ],
)
def test_another_number_is_another_loss(loss, name, other):
    assert value(loss) != value(loss, **{name: other})


def test_kernel_vicreg_takes_every_setting_of_its_options_by_name():
    options = KernelVICRegOptions(threshold=1.2, solver="products", covariance="squared")
    loss = KernelVICRegLoss("rbf", **options.flat())
    assert (loss.threshold, loss.solver, loss.covariance, loss.gather) == (1.2, "products", "squared", True)
    assert KernelVICRegLoss("rbf", gather=False, **options.flat()).gather is False


APPROXIMATED = [
    losses.KernelBYOLLoss, losses.KernelSimCLRLoss, losses.KernelBarlowTwinsLoss, losses.SSLHSICLoss, losses.MMCRLoss,
    KernelVICRegLoss,
]  # fmt: skip


@pytest.mark.parametrize("loss", APPROXIMATED)
def test_features_are_drawn_anew_in_a_training_step_alone(loss):
    criterion = loss("rbf", approximation=RandomFourier(features=16, redraw=True))
    views = torch.randn(4 if loss in FOUR_PARTS else 2, 24, 8)
    first, second = (float(criterion(*views).detach()) for _ in range(2))
    assert first != second
    criterion.eval()
    assert float(criterion(*views)) == float(criterion(*views))


@pytest.mark.parametrize("parametrization", ["scaled", "paper"])
def test_the_solver_is_handed_on_to_the_operator(monkeypatch, parametrization):
    asked = []

    def hinge_sum(operator, threshold, eps, count, scale=1.0, solver="eigh"):
        asked.append(solver)
        return torch.zeros(())

    monkeypatch.setattr(CovarianceOperator, "hinge_sum", hinge_sum)
    KernelVICRegLoss("rbf", parametrization, solver="products")(*torch.randn(2, 12, 4))
    assert {*asked} == {"products"}


def test_the_smoothed_bandwidth_of_kernel_byol_is_of_predictions_and_targets_together():
    parts = torch.randn(4, 10, 3, dtype=torch.float64) * torch.tensor([1.0, 2.0, 0.5, 4.0]).view(4, 1, 1) + 1
    criterion = losses.KernelBYOLLoss(kernels.RBF("smoothed")).double()
    points = torch.nn.functional.normalize(parts, dim=-1).flatten(0, 1)
    expected = losses.kernel_byol(*parts, kernel=kernels.RBF(float(kernels.RBF("median").resolve(points).gamma)))
    torch.testing.assert_close(criterion(*parts), expected)


@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_linear_barlow_twins_has_the_kernels_scale(eps):
    views = torch.randn(2, 12, 4, dtype=torch.float64)
    ours = losses.KernelBarlowTwinsLoss(kernels.Linear(gamma=4.0), basis="coordinates", redundancy_weight=0.3, eps=eps)
    torch.testing.assert_close(ours(*views), losses.BarlowTwinsLoss(0.3, eps=eps)(*(2 * views)))


@pytest.mark.parametrize("loss", [losses.vicreg_terms, losses.kernel_vicreg_terms])
def test_the_three_terms_are_weighted(loss):
    kernel = {} if loss is losses.vicreg_terms else {"kernel": kernels.RBF()}
    views = torch.randn(2, 12, 4, dtype=torch.float64)
    terms = loss(*views, invariance_weight=2.0, variance_weight=3.0, covariance_weight=5.0, **kernel)
    torch.testing.assert_close(terms.total, 2 * terms.invariance + 3 * terms.variance + 5 * terms.covariance)


def test_terms_are_what_the_total_is_made_of():
    terms = losses.CorInfoMaxLoss(attraction=7.0).terms(*torch.randn(2, 24, 4, dtype=torch.float64))
    torch.testing.assert_close(terms.total, 7.0 * terms.invariance - terms.log_det)


def test_groups_may_be_a_list():
    views = torch.randn(2, 12, 4)
    groups = [0, 0, 1, 1, 1, 2] * 2
    loss = KernelVICRegLoss("rbf")
    assert float(loss.terms(*views, groups=groups).total) == float(
        loss.terms(*views, groups=torch.tensor(groups)).total
    )


def test_barlow_twins_in_few_features_has_as_many_directions():
    views = torch.randn(2, 40, 6, dtype=torch.float64)
    approximation = RandomFourier(features=8)
    loss = losses.KernelBarlowTwinsLoss("rbf", approximation=approximation)
    invariance, redundancy = loss.terms(*views)[1:]
    doubled = losses.KernelBarlowTwinsLoss("rbf", approximation=approximation, redundancy_weight=2.0).terms(*views)
    torch.testing.assert_close(doubled.total, invariance + 2 * redundancy)
    # with one view twice, redundancy = r tr C^2 / (tr C)^2 - 1 is at most r - 1, which one direction alone reaches
    line = torch.linspace(-1e-3, 1e-3, 40, dtype=torch.float64)[:, None].expand(-1, 6)
    kernel = losses.kernel_barlow_twins_terms(
        line, line, kernel=loss.kernel.with_gamma(1.0), approximation=approximation, eps=0.0
    )
    assert float(kernel.redundancy) == pytest.approx(7, rel=1e-3)
