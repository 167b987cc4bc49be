"""Kernels, points and features for the tests of approximations."""

import torch

from kvicreg import kernels
from kvicreg.operators.shard import Shard

KERNELS = {
    "linear": kernels.Linear,
    "polynomial": kernels.Polynomial,
    "rbf": lambda: kernels.RBF(0.2),
    "laplacian": lambda: kernels.Laplacian(0.4),
    "laplacian-l1": lambda: kernels.Laplacian(0.2, norm=1),
    "inverse-multiquadric": lambda: kernels.InverseMultiquadric(0.4),
    "rq": lambda: kernels.RationalQuadratic(0.3, alpha=0.7),
    "mixture": lambda: kernels.Mixture([kernels.RBF(0.2), kernels.Laplacian(0.4)], weights=[1, 3]),
    "product": lambda: kernels.RBF(0.1) * kernels.RationalQuadratic(0.2),
}
STATIONARY = [name for name in KERNELS if name not in ("linear", "polynomial")]


def views(count=2, b=20, p=3, seed=0):
    return torch.randn(count, b, p, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def features(approximation, z, kernel):
    return approximation.features(z, kernel, Shard.of(z, gather=False)).detach()


def gram(name, x):
    return KERNELS[name]()(x).detach().numpy()
