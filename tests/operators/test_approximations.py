"""What Nystroem and random Fourier features share: nothing b x b is ever built."""

import pytest
import torch
from approximated import features, views
from torch.utils._python_dispatch import TorchDispatchMode

from kvicreg import KernelVICRegLoss, kernels
from kvicreg.operators import Nystrom, RandomFourier, covariance_operator
from kvicreg.operators.approximation import APPROXIMATIONS
from kvicreg.options import Values


@pytest.mark.parametrize("approximation", [Nystrom(5), RandomFourier(6)], ids=["nystrom", "fourier"])
@pytest.mark.parametrize("parametrization", ["paper", "scaled"])
class TestBoth:
    def test_nothing_b_by_b_is_built(self, approximation, parametrization):
        b, shapes = 41, []

        class Spy(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                shapes.extend(
                    o.shape for o in (out if isinstance(out, tuple) else (out,)) if isinstance(o, torch.Tensor)
                )
                return out

        z = views(b=b).requires_grad_()
        with Spy():
            KernelVICRegLoss(kernels.RBF(0.2), parametrization, approximation=approximation)(*z).backward()
        assert not [shape for shape in shapes if tuple(shape).count(b) > 1]

    def test_works_in_half_precision_and_under_autocast(self, approximation, parametrization):
        z = views().bfloat16().requires_grad_()
        criterion = KernelVICRegLoss("rbf", parametrization, approximation=approximation)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(*z)
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss, criterion(*z.float()))
        loss.backward()
        assert bool(z.grad.isfinite().all())

    def test_operator_is_on_the_side_of_the_features(self, approximation, parametrization):
        operator = covariance_operator(views(1)[0], "rbf", approximation)
        assert operator.eigenvalues().shape[-1] <= 6
        assert operator.samples == 20


def test_they_show_their_settings_and_have_defaults():
    assert repr(Nystrom()) == "Nystrom(landmarks=256, choice='uniform')"
    assert repr(RandomFourier()) == "RandomFourier(features=512, form='paired', orthogonal=False, redraw=False)"
    assert (Nystrom().seed, RandomFourier().seed) == (0, 0)
    chosen = {name: APPROXIMATIONS.read(name, Values({})).build(7) for name in APPROXIMATIONS.names()}
    assert chosen.pop("exact") is chosen.pop("auto") is None
    assert (chosen["nystrom"].landmarks, chosen["nystrom"].seed) == (128, 7)
    assert (chosen["random-fourier"].count, chosen["random-fourier"].seed) == (128, 7)


def test_one_landmark_and_two_features_are_enough():
    assert features(Nystrom(1), views(1), kernels.RBF(0.5)).shape[-1] == 1
    assert features(RandomFourier(2), views(1), kernels.RBF(0.5)).shape[-1] == 2
    assert features(RandomFourier(3, "cosine"), views(1), kernels.RBF(0.5)).shape[-1] == 3
