"""Random Fourier features: shift-invariant kernels as averages of cosines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.composite import Sum
from kvicreg.kernels.tensors import is_concrete, outside_transforms
from kvicreg.operators.approximation import Approximation, ApproximationOptions
from kvicreg.operators.shard import Shard
from kvicreg.options import option

__all__ = ["RandomFourier"]


class RandomFourier(Approximation):
    """``k(x, y) = E cos(w . (x - y))`` with frequencies w drawn from the kernel's spectral density, in O(bD).

    For RBF, rational quadratic, inverse multiquadric, both Laplacians, their products, and sums or mixtures of those (D
    is shared out among the members in equal parts). The error of a kernel value falls as 1 / sqrt(D). The frequencies
    of the Laplacians are heavy-tailed (Cauchy): values converge all the same, but gradients are noisy; prefer `Nystrom`
    for them.

    Args:
        features: D.
        form: "paired" takes the cosine and the sine of D / 2 frequencies, so that k(x, x) is exact;
            "cosine" is the paper's ``sqrt(2 / D) cos(w . x + phase)`` of D frequencies.
        orthogonal: draw frequencies in orthogonal blocks, with less variance, for kernels of the Euclidean distance.
        redraw: new frequencies at every training step, instead of the same at all of them.
        seed: what the frequencies are a function of (with the step, if they are redrawn), alike in every process.

    Example:
        >>> from kvicreg import KernelVICRegLoss
        >>> criterion = KernelVICRegLoss("rbf", approximation=RandomFourier(features=256))
        >>> criterion(torch.randn(1024, 64), torch.randn(1024, 64)).shape
        torch.Size([])
    """

    def __init__(
        self,
        features: int = 512,
        form: Literal["paired", "cosine"] = "paired",
        orthogonal: bool = False,
        redraw: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if form not in ("paired", "cosine"):
            raise ValueError(f'form must be "paired" or "cosine", got {form!r}')
        if features < 2 or (form == "paired" and features % 2):
            raise ValueError(f"features must be at least 2, and even in the paired form, got {features}")
        self.count, self.form, self.orthogonal, self.redraw, self.seed = features, form, orthogonal, redraw, seed
        self._step = 0
        self._drawn: dict[Any, tuple[Any, Tensor]] = {}

    def advance(self) -> None:
        self._step += self.redraw

    def features(self, views: Sequence[Tensor] | Tensor, kernel: Kernel, shard: Shard) -> Tensor:
        members = kernel.members() if isinstance(kernel, Sum) else [(1.0, kernel)]
        share = self.count // len(members)
        share -= share % 2 if self.form == "paired" else 0
        if share < 2:
            raise ValueError(f"{self.count} features are too few for a sum of {len(members)} kernels")
        z = views if isinstance(views, Tensor) else torch.stack(list(views))
        parts = [self._member(z, member, weight, share, i) for i, (weight, member) in enumerate(members)]
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    def _member(self, z: Tensor, kernel: Kernel, weight: float | Tensor, count: int, index: int) -> Tensor:
        """``sqrt(weight)`` times `count` features of one member."""
        scale = (weight * 2 / count) ** 0.5
        noise, phase = self._draw(z, kernel, count, index)
        angles = z @ kernel.frequencies(noise).mT
        if self.form == "cosine":
            return (angles + phase).cos() * scale
        return _circle(angles, 1.0) * scale if isinstance(scale, Tensor) else _circle(angles, scale)

    def _draw(self, z: Tensor, kernel: Kernel, count: int, index: int) -> tuple[Any, Tensor]:
        """Spectral noise and phases for a member of a sum, remembered from call to call."""
        key = (self._step, index, kernel.spectral_key(), count, z.shape[-1], z.device, z.dtype)
        if key not in self._drawn:
            if len(self._drawn) >= 16:
                self._drawn.clear()
            with outside_transforms():
                noise, phase = self._drawn_anew(z.shape[-1], kernel, count, index)
                noise = _map(lambda draws: draws.to(z.device, z.dtype), noise)
                self._drawn[key] = noise, phase.to(z.device, z.dtype)
        return self._drawn[key]

    def _drawn_anew(self, dimension: int, kernel: Kernel, count: int, index: int) -> tuple[Any, Tensor]:
        """The same, drawn on the CPU, so that all processes and devices agree."""
        generator = torch.Generator().manual_seed(((self.seed * 1_000_003 + self._step) * 1_000_003 + index) % 2**63)
        frequencies = count // 2 if self.form == "paired" else count
        noise = kernel.spectral_noise(frequencies, dimension, generator)
        if self.orthogonal:
            if not kernel.rotation_invariant:
                raise ValueError("orthogonal frequencies need a kernel of the Euclidean distance; this one is not")
            noise = _map(lambda draws: _orthogonal(draws, generator), noise)
        return noise, torch.rand(frequencies, generator=generator) * (2 * math.pi)

    # The step is state, but a number of Python's own: reading it from a device at every step would stall it.
    def get_extra_state(self) -> Tensor:
        return torch.tensor(self._step)

    def set_extra_state(self, state: Tensor) -> None:
        self._step = int(state)

    def extra_repr(self) -> str:
        return f"features={self.count}, form={self.form!r}, orthogonal={self.orthogonal}, redraw={self.redraw}"


def _circle(angles: Tensor, scale: float) -> Tensor:
    """``scale * [cos a, sin a]``."""
    circle: Tensor
    circle = _Circle.apply(angles, scale) if is_concrete() else torch.cat([angles.cos(), angles.sin()], dim=-1) * scale
    return circle


class _Circle(torch.autograd.Function):
    """Its gradient needs the output alone, which autograd knows: it can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, angles: Tensor, scale: float) -> Tensor:
        count = angles.shape[-1]
        circle = angles.new_empty(*angles.shape[:-1], 2 * count)
        torch.cos(angles, out=circle[..., :count])
        torch.sin(angles, out=circle[..., count:])
        circle.mul_(scale)
        ctx.save_for_backward(circle)
        return circle

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        cos, sin = ctx.saved_tensors[0].chunk(2, dim=-1)
        grad_cos, grad_sin = grad.chunk(2, dim=-1)
        return (grad_sin * cos).addcmul_(grad_cos, sin, value=-1), None


def _map(function: Any, noise: Any) -> Any:
    return tuple(_map(function, part) for part in noise) if isinstance(noise, tuple) else function(noise)


def _orthogonal(draws: Tensor, generator: torch.Generator) -> Tensor:
    """Rows of the same lengths as `draws`, in directions that are orthonormal within blocks of p rows."""
    count, dimension = draws.shape
    blocks = torch.randn(math.ceil(count / dimension), dimension, dimension, generator=generator)
    basis, triangle = torch.linalg.qr(blocks)
    # uniform among all orthogonal matrices only with these signs: LAPACK's own make some entries always negative
    basis = basis * triangle.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    rows: Tensor = basis.mT.flatten(0, 1)[:count] * torch.linalg.vector_norm(draws, dim=1, keepdim=True)
    return rows


@dataclass(frozen=True, kw_only=True)
class RandomFourierOptions(ApproximationOptions, name="random-fourier"):
    """Settings of `RandomFourier`."""

    components: int = option(128, "Random features.", at_least=2)

    def build(self, seed: int) -> RandomFourier:
        return RandomFourier(features=self.components, seed=seed)
