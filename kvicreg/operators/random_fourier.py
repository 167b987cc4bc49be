"""Random Fourier features: shift-invariant kernels as averages of cosines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from kvicreg.kernels.base import Kernel
from kvicreg.kernels.composite import Sum
from kvicreg.kernels.pairs import TwoViews
from kvicreg.kernels.tensors import is_concrete
from kvicreg.operators.approximation import Approximation
from kvicreg.operators.shard import Shard

__all__ = ["RandomFourier"]


class RandomFourier(Approximation):
    """``k(x, y) = E cos(w . (x - y))`` with frequencies w drawn from the kernel's spectral density, in O(bD).

    For RBF, rational quadratic, both Laplacians, their products, and sums or mixtures of those (D is shared out among
    the members in equal parts). The error of a kernel value falls as 1 / sqrt(D). The frequencies of the Laplacians are
    heavy-tailed (Cauchy): values converge all the same, but gradients are noisy; prefer `Nystrom` for them.

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

    def features(self, views: Sequence[Tensor] | Tensor, kernel: Kernel, shard: Shard) -> Tensor:
        if self.redraw and self.training and torch.is_grad_enabled():
            self._step += 1
        members = kernel.members() if isinstance(kernel, Sum) else [(1.0, kernel)]
        share = self.count // len(members)
        share -= share % 2 if self.form == "paired" else 0
        if share < 2:
            raise ValueError(f"{self.count} features are too few for a sum of {len(members)} kernels")
        parts = [self._member(views, member, weight, share, i) for i, (weight, member) in enumerate(members)]
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    def _member(
        self, views: Sequence[Tensor] | Tensor, kernel: Kernel, weight: float | Tensor, count: int, index: int
    ) -> Tensor:
        """``sqrt(weight)`` times `count` features of one member."""
        scale = (weight * 2 / count) ** 0.5
        noise, phase = self._draw(views[0], kernel, count, index)
        frequencies = kernel.frequencies(noise).mT
        angles = views.project(frequencies) if isinstance(views, TwoViews) else [view @ frequencies for view in views]
        if self.form == "cosine":
            return (torch.stack(angles) + phase).cos() * scale
        learnt = isinstance(scale, Tensor)
        circle: Tensor = _Circle.apply(1.0 if learnt else scale, *angles)
        return circle * scale if learnt else circle

    def _draw(self, z: Tensor, kernel: Kernel, count: int, index: int) -> tuple[Any, Tensor]:
        """Spectral noise and phases, drawn on the CPU so that all processes and devices agree, and kept."""
        key = (self._step, index, kernel.spectral_key(), count, z.shape[-1], z.device, z.dtype)
        if key not in self._drawn:
            generator = torch.Generator().manual_seed(
                ((self.seed * 1_000_003 + self._step) * 1_000_003 + index) % 2**63
            )
            frequencies = count // 2 if self.form == "paired" else count
            noise = kernel.spectral_noise(frequencies, z.shape[-1], generator)
            if self.orthogonal:
                if not kernel.rotation_invariant:
                    raise ValueError("orthogonal frequencies need a kernel of the Euclidean distance; this one is not")
                noise = _map(lambda draws: _orthogonal(draws, generator), noise)
            phase = torch.rand(frequencies, generator=generator) * (2 * math.pi)
            if len(self._drawn) >= 16:
                self._drawn.clear()
            self._drawn[key] = (_map(lambda draws: draws.to(z), noise), phase.to(z))
        return self._drawn[key]

    # The step is state, but a number of Python's own: reading it from a device at every step would stall it.
    def get_extra_state(self) -> Tensor:
        return torch.tensor(self._step)

    def set_extra_state(self, state: Tensor) -> None:
        self._step = int(state)

    def extra_repr(self) -> str:
        return f"features={self.count}, form={self.form!r}, orthogonal={self.orthogonal}, redraw={self.redraw}"


class _Circle(torch.autograd.Function):
    """``scale * [cos a, sin a]`` of every view, stacked; its gradient needs the output alone."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scale: float, *angles: Tensor) -> Tensor:
        if not is_concrete(angles[0]):
            return torch.stack([torch.cat([a.cos(), a.sin()], dim=-1) for a in angles]) * scale
        rows, count = angles[0].shape
        circle = angles[0].new_empty(len(angles), rows, 2 * count)
        for view, a in enumerate(angles):
            torch.cos(a, out=circle[view, :, :count])
            torch.sin(a, out=circle[view, :, count:])
        return circle.mul_(scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors[0].chunk(2, dim=-1)
        grad_cos, grad_sin = grad.chunk(2, dim=-1)
        return None, *(grad_sin * cos).addcmul_(grad_cos, sin, value=-1).unbind()


def _map(function: Any, noise: Any) -> Any:
    return tuple(_map(function, part) for part in noise) if isinstance(noise, tuple) else function(noise)


def _orthogonal(draws: Tensor, generator: torch.Generator) -> Tensor:
    """Rows of the same lengths as `draws`, in directions that are orthonormal within blocks of p rows."""
    count, dimension = draws.shape
    blocks = [
        torch.linalg.qr(torch.randn(dimension, dimension, generator=generator))[0].mT
        for _ in range(math.ceil(count / dimension))
    ]
    directions = torch.cat(blocks)[:count]
    lengths: Tensor = torch.linalg.vector_norm(draws, dim=1, keepdim=True)
    return directions * lengths
