"""The peers' losses refuse bad input by name, and run in at least float32 whatever comes in."""

import inspect

import pytest
import torch

from kvicreg import kernels, losses, operators

TWO_VIEWS = [
    losses.NTXentLoss(),
    losses.KernelSimCLRLoss("laplacian"),
    losses.BarlowTwinsLoss(),
    losses.KernelBarlowTwinsLoss("rq"),
    losses.SSLHSICLoss(),
    losses.SwAVLoss(),
]
FOUR = [losses.BYOLLoss(), losses.SimSiamLoss(), losses.KernelBYOLLoss("rbf")]


def name(loss):
    return type(loss).__name__


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
def test_views_of_different_shapes_are_named(loss):
    views = [torch.randn(6, 4) for _ in range(4 if loss in FOUR else 2)]
    views[1] = torch.randn(5, 4)
    with pytest.raises(ValueError, match="view 2 is"):
        loss(*views)


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
def test_values_that_are_not_finite_are_named(loss):
    views = list(torch.randn(4 if loss in FOUR else 2, 6, 4))
    views[0][2, 1] = float("nan")
    with pytest.raises(ValueError, match="view 1 has 1 NaN"):
        loss(*views)


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_result_is_a_finite_scalar_of_at_least_float32(loss, dtype):
    views = torch.randn(4 if loss in FOUR else 2, 6, 4).to(dtype).unbind()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(*views)
    assert value.shape == ()
    assert value.isfinite()
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
def test_gradients_are_finite_at_collapse(loss):
    views = [torch.ones(6, 4, requires_grad=True) for _ in range(4 if loss in FOUR else 2)]
    loss(*views).backward()
    assert all(view.grad is None or view.grad.isfinite().all() for view in views)


@pytest.mark.parametrize("loss", TWO_VIEWS + FOUR, ids=name)
def test_embeddings_of_zero_have_finite_losses_and_gradients(loss):
    views = [torch.zeros(6, 4, requires_grad=True) for _ in range(4 if loss in FOUR else 2)]
    value = loss(*views)
    value.backward()
    assert value.isfinite()
    assert all(view.grad is None or view.grad.isfinite().all() for view in views)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: losses.NTXentLoss(temperature=0), "temperature"),
        (lambda: losses.InfoNCELoss(temperature=float("nan")), "temperature"),
        (lambda: losses.SwAVLoss(epsilon=-1), "epsilon"),
        (lambda: losses.KernelSimCLRLoss(temperature=-1), "temperature"),
        (lambda: losses.SwAVLoss(temperature=0), "temperature"),
        (lambda: losses.SwAVLoss(iterations=0), "iterations"),
        (lambda: losses.DINOLoss(temperature=0), "temperature"),
        (lambda: losses.DINOLoss(teacher_temperature=0), "teacher_temperature"),
        (lambda: losses.DINOLoss(prototypes=0), "prototypes"),
        (lambda: losses.DINOLoss(centre_momentum=1.5), "centre_momentum"),
        (lambda: losses.BarlowTwinsLoss(eps=float("inf")), "eps"),
        (lambda: losses.KernelBarlowTwinsLoss(redundancy_weight=-1), "redundancy_weight"),
        (lambda: losses.BarlowTwinsLoss(redundancy_weight=-1), "redundancy_weight"),
        (lambda: losses.KernelBarlowTwinsLoss(basis="fourier"), "basis"),
        (lambda: losses.SSLHSICLoss(hsic_weight=-3), "hsic_weight"),
    ],
)
def test_bad_settings_are_named(make, named):
    with pytest.raises(ValueError, match=named):
        make()


OPTIONS = {
    losses.NTXentLoss: losses.NTXentOptions,
    losses.InfoNCELoss: losses.InfoNCEOptions,
    losses.KernelSimCLRLoss: losses.KernelSimCLROptions,
    losses.SwAVLoss: losses.SwAVOptions,
    losses.DINOLoss: losses.DINOOptions,
    losses.BarlowTwinsLoss: losses.BarlowTwinsOptions,
    losses.KernelBarlowTwinsLoss: losses.KernelBarlowTwinsOptions,
    losses.SSLHSICLoss: losses.SSLHSICOptions,
}


@pytest.mark.parametrize("loss", OPTIONS, ids=lambda loss: loss.__name__)
def test_options_are_arguments_of_their_loss_with_the_same_defaults(loss):
    arguments = inspect.signature(loss).parameters
    settings = OPTIONS[loss]().flat()
    assert {name: arguments[name].default for name in settings} == settings
    assert repr(loss(**settings)) == repr(loss())


PUBLISHED = {
    losses.SwAVLoss: {"temperature": 0.1, "epsilon": 0.05, "iterations": 3},
    losses.DINOLoss: {"temperature": 0.1, "teacher_temperature": 0.04, "centre_momentum": 0.9},
    losses.BarlowTwinsLoss: {"redundancy_weight": 0.0051},
    losses.InfoNCELoss: {"temperature": 0.2},
    losses.SSLHSICLoss: {"hsic_weight": 3.0},
}


@pytest.mark.parametrize("loss", PUBLISHED, ids=lambda loss: loss.__name__)
def test_defaults_are_those_of_the_paper(loss):
    criterion = loss()
    assert {name: getattr(criterion, name) for name in PUBLISHED[loss]} == PUBLISHED[loss]


@pytest.mark.parametrize(("basis", "weight"), [("free", 0.1), ("coordinates", 0.0051)])
def test_each_basis_of_kernel_barlow_twins_has_its_default_weight(basis, weight):
    assert losses.KernelBarlowTwinsLoss("linear", basis=basis).redundancy_weight == weight
    views = torch.randn(2, 8, 4)
    terms = losses.kernel_barlow_twins_terms(*views, kernel=kernels.Linear(), basis=basis)
    torch.testing.assert_close(terms.total, terms.invariance + weight * terms.redundancy)


def test_ssl_hsic_without_a_kernel_is_the_inverse_multiquadric():
    views = torch.randn(2, 8, 4, dtype=torch.float64)
    u = torch.nn.functional.normalize(views, dim=-1)
    pairs = (1 + (u[0] - u[1]).square().sum(-1)).rsqrt().mean()
    everything = (1 + torch.cdist(u.flatten(0, 1), u.flatten(0, 1)).square()).rsqrt().mean()
    for terms in (losses.ssl_hsic_terms(*views), losses.SSLHSICLoss().terms(*views)):
        torch.testing.assert_close(terms.hsic_zy, pairs - everything)
        torch.testing.assert_close(terms.total, 3 * terms.hsic_zz.sqrt() - terms.hsic_zy)


KERNEL_LOSSES = [
    losses.KernelSimCLRLoss, losses.KernelBYOLLoss, losses.KernelBarlowTwinsLoss, losses.SSLHSICLoss, losses.FroSSLLoss,
]  # fmt: skip


@pytest.mark.parametrize("make", KERNEL_LOSSES)
def test_an_approximation_is_an_object(make):
    with pytest.raises(TypeError, match="operators.Nystrom"):
        make(approximation="nystrom")


def test_negatives_of_another_width_are_named():
    with pytest.raises(ValueError, match="negatives must have shape"):
        losses.info_nce(torch.randn(4, 3), torch.randn(4, 3), torch.randn(9, 2))
    with pytest.raises(TypeError, match=r"^negatives must be a floating-point tensor"):
        losses.info_nce(torch.randn(4, 3), torch.randn(4, 3), torch.ones(9, 3, dtype=torch.long))


@pytest.mark.parametrize("shape", [(9, 3), (2, 9, 4), (3, 9, 3)], ids=str)
def test_former_scores_of_another_shape_are_named(shape):
    with pytest.raises(ValueError, match=r"former must have shape \(2, m, 3\)"):
        losses.swav(torch.randn(4, 3), torch.randn(4, 3), former=torch.randn(shape))


@pytest.mark.parametrize("shape", [(4, 3), (3, 4, 3), (2, 5, 3), (2, 4, 2)], ids=str)
def test_teachers_of_another_shape_are_named(shape):
    with pytest.raises(ValueError, match=r"teacher must have shape \(2, 4, 3\)"):
        losses.DINOLoss(3)(torch.randn(shape), torch.randn(4, 3), torch.randn(4, 3))


def test_outputs_of_another_width_than_the_centre_are_named():
    with pytest.raises(ValueError, match="centre must have shape"):
        losses.DINOLoss(5)(torch.randn(2, 4, 3), torch.randn(4, 3), torch.randn(4, 3))


@pytest.mark.parametrize("loss", [losses.BarlowTwinsLoss(), losses.KernelBarlowTwinsLoss("rbf")], ids=name)
def test_a_batch_of_one_has_no_variance(loss):
    with pytest.raises(ValueError, match="at least two samples"):
        loss(torch.randn(1, 4), torch.randn(1, 4))


def test_a_temperature_divides_the_cosines_with_the_queue():
    queries, keys, queue = torch.randn(3, 6, 4, dtype=torch.float64)
    unit = torch.nn.functional.normalize
    right = (unit(queries) * unit(keys)).sum(-1, keepdim=True)
    scores = torch.cat([right, unit(queries) @ unit(queue).T], dim=1) / 0.7
    expected = -scores.log_softmax(1)[:, 0].mean()
    torch.testing.assert_close(losses.InfoNCELoss(temperature=0.7)(queries, keys, queue), expected)
    torch.testing.assert_close(losses.info_nce(queries, keys, queue, temperature=0.7), expected)


def test_ssl_hsic_of_an_approximation_is_of_its_features():
    views = torch.randn(2, 8, 4, dtype=torch.float64)
    kernel, landmarks = kernels.RBF(gamma=0.4), operators.Nystrom(landmarks=3)
    u = torch.nn.functional.normalize(views, dim=-1)
    features = landmarks.features(u, kernel, operators.shard.Shard.of(u, gather=False)).flatten(0, 1)
    pairs = (-0.4 * (u[0] - u[1]).square().sum(-1)).exp().mean()
    covariance = torch.cov(features.T, correction=0) * 16 / 15
    zy, zz = pairs - features.mean(0).square().sum(), covariance.square().sum()
    for terms in (
        losses.ssl_hsic_terms(*views, kernel=kernel, approximation=landmarks),
        losses.SSLHSICLoss(kernel, approximation=landmarks).terms(*views),
    ):
        torch.testing.assert_close((terms.hsic_zy, terms.hsic_zz), (zy, zz))
    everything = losses.SSLHSICLoss(kernel, approximation=operators.Nystrom(landmarks=16))
    torch.testing.assert_close(everything(*views), losses.SSLHSICLoss(kernel)(*views), rtol=1e-5, atol=1e-6)


def test_swav_takes_former_scores_in_another_precision():
    scores, former = torch.randn(2, 8, 5, dtype=torch.float64), torch.randn(2, 12, 5)
    expected = losses.swav(*scores, former=former.double())
    torch.testing.assert_close(losses.SwAVLoss()(*scores, former=former), expected)
    assert float(expected) != float(losses.swav(*scores))


@pytest.mark.parametrize("setting", ["temperature", "teacher_temperature"])
def test_dino_has_the_temperatures_that_it_is_told(setting):
    teacher, student, centre = torch.randn(2, 6, 5), torch.randn(3, 6, 5), torch.zeros(5)
    criterion = losses.DINOLoss(5, **{setting: 0.3})
    assert torch.equal(criterion(teacher, *student), losses.dino(teacher, [*student], centre=centre, **{setting: 0.3}))
    assert not torch.equal(criterion(teacher, *student), losses.DINOLoss(5)(teacher, *student))


def test_barlow_twins_does_not_see_how_far_from_the_origin_its_views_are():
    views = torch.randn(2, 32, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        losses.BarlowTwinsLoss()(*(views + 300)), losses.BarlowTwinsLoss()(*views), rtol=1e-3, atol=0
    )
