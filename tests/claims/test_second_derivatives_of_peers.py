"""Second derivatives of the peers' losses are right, or refused in a sentence, under torch.autograd and torch.func.

1. A Hessian-vector product by two passes of autograd is the finite difference of the gradient.
2. The same by nested `torch.func.grad`.
3. Losses without a kernel refuse neither. A kernel's shortcut may, and then says that it has no second derivatives.

What takes part without gradient (targets, keys, negatives, codes, the centre) stays fixed, as in the first derivative.
"""

from __future__ import annotations

import pytest
import torch

from kvicreg import kernels, losses, operators

KERNELS = {
    "linear": kernels.Linear(),
    "polynomial": kernels.Polynomial(degree=3),
    "rbf": kernels.RBF(gamma=0.3),
    "laplacian": kernels.Laplacian(gamma=0.4),
    "rq": kernels.RationalQuadratic(gamma=0.5, alpha=2.0),
}
WIDE, TALL = (4, 7), (7, 4)


def draw(count: int, shape: tuple[int, int]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count + shape[0])
    return torch.randn(count, *shape, generator=generator, dtype=torch.float64)


def swav_with_still_codes(scores: torch.Tensor) -> torch.Tensor:
    """SwAV where a third view is moved: the codes come from the first two."""
    still = 0.3 * draw(2, tuple(scores.shape[1:]))
    return losses.swav(*still, scores[0])


def dino(student: torch.Tensor) -> torch.Tensor:
    return losses.dino(draw(2, tuple(student.shape[1:])), student, centre=torch.full(student.shape[2:], 0.1))


def with_targets(loss):
    return lambda q: loss(*q, *draw(3, tuple(q.shape[1:]))[:2])


PLAIN = {
    "nt-xent": lambda z: losses.nt_xent(*z, temperature=0.5),
    "info-nce": lambda z: losses.info_nce(z[0], *draw(2, tuple(z.shape[1:])), temperature=0.4),
    "byol": with_targets(losses.byol),
    "simsiam": with_targets(losses.simsiam),
    "swav": swav_with_still_codes,
    "dino": dino,
    "barlow twins": lambda z: losses.barlow_twins_terms(*z, weight=0.2).total,
}
MEMBERS = {
    "kernel simclr": lambda **options: lambda z: losses.kernel_simclr(*z, temperature=0.5, **options),
    "kernel byol": lambda **options: with_targets(losses.KernelBYOLLoss(**options)),
    "kernel barlow twins": lambda **options: lambda z: losses.kernel_barlow_twins_terms(*z, **options).total,
    "ssl-hsic": lambda **options: lambda z: losses.ssl_hsic_terms(*z, **options).total,
}


def by_autograd(loss, z, direction):
    z = z.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(z), z, create_graph=True)
    return torch.autograd.grad(gradient, z, direction)[0]


def by_torch_func(loss, z, direction):
    return torch.func.grad(lambda point: (torch.func.grad(loss)(point) * direction).sum())(z)


def by_differences(loss, z, direction, step=1e-5):
    ahead, behind = (torch.func.grad(loss)(z + sign * step * direction) for sign in (1, -1))
    return (ahead - behind) / (2 * step)


def check(product, loss, shape):
    z, direction = draw(2, shape), draw(5, shape)[:2]
    torch.testing.assert_close(product(loss, z, direction), by_differences(loss, z, direction), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("product", [by_autograd, by_torch_func])
@pytest.mark.parametrize("shape", [TALL, WIDE], ids=str)
@pytest.mark.parametrize("name", PLAIN)
def test_losses_without_a_kernel_have_right_second_derivatives(name, shape, product):
    check(product, PLAIN[name], shape)


@pytest.mark.parametrize("product", [by_autograd, by_torch_func])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", MEMBERS)
def test_losses_with_a_kernel_have_right_second_derivatives_or_refuse_them(name, kernel, product):
    right_or_refused(product, MEMBERS[name](kernel=KERNELS[kernel]))


@pytest.mark.parametrize("product", [by_autograd, by_torch_func])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "rq"])
@pytest.mark.parametrize("name", MEMBERS)
def test_losses_of_random_features_have_right_second_derivatives_or_refuse_them(name, kernel, product):
    approximation = operators.RandomFourier(features=6)
    right_or_refused(product, MEMBERS[name](kernel=KERNELS[kernel], approximation=approximation))


def right_or_refused(product, loss):
    try:
        check(product, loss, TALL)
    except (RuntimeError, NotImplementedError) as error:
        if "second derivative" not in str(error):
            raise
