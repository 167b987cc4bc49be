"""What a loss returns, and what it accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from kvicreg.kernels.tensors import at_least_float32, is_concrete
from kvicreg.operators.bandwidth import is_training_step
from kvicreg.options import Options

__all__ = ["LossTerms", "NotFiniteViews", "TermsLoss", "check_positive", "check_views", "stack_views"]


O = TypeVar("O", bound=Options)
WEIGHTS = ("invariance_weight", "variance_weight", "covariance_weight")


class LossTerms(NamedTuple):
    """`total` is weighted, the three terms are not; variance and covariance are those of both views together."""

    total: Tensor
    invariance: Tensor
    variance: Tensor
    covariance: Tensor

    @classmethod
    def weighted(
        cls, weights: tuple[float, float, float], invariance: Tensor, variance: Tensor, covariance: Tensor
    ) -> LossTerms:
        """The terms with their weighted sum."""
        total = weights[0] * invariance + weights[1] * variance + weights[2] * covariance
        return cls(total, invariance, variance, covariance)


class TermsLoss(nn.Module):
    """A loss of several views that is made of terms.

    ``loss(z1, z2)`` in training mode with gradients enabled is a step of training: what a loss remembers from step to
    step, such as a smoothed bandwidth, moves once, before the loss is computed. `step` is the same call with all the
    terms as its result. `terms` is for looking: it changes nothing, in any mode.
    """

    terms: Callable[..., Any]
    """The terms of the views, a named tuple with `total`."""

    def advance(self, *views: Tensor) -> None:
        """What one training step changes in the loss itself; called before the loss is computed."""

    def step(self, *views: Tensor, **more: Any) -> Any:
        """`terms`, as a step of training where this is one."""
        if is_training_step(self):
            self.advance(*views)
        return self.terms(*views, **more)

    def forward(self, *views: Tensor, **more: Any) -> Tensor:
        """The weighted loss, a scalar."""
        total: Tensor = self.step(*views, **more).total
        return total


def setting(name: str) -> Any:
    """An attribute of a loss that is one of its `options`; to change it, make another loss."""
    return property(lambda loss: getattr(loss.options, name), doc=f"`options.{name}`.")


def weights_or(defaults: tuple[float, float, float], options: Options) -> tuple[float, float, float]:
    """The three weights of `options`; the defaults where they are None."""
    given = [getattr(options, name) for name in WEIGHTS]
    alpha, beta, zeta = (default if weight is None else weight for weight, default in zip(given, defaults, strict=True))
    return alpha, beta, zeta


def told_weights(weights: tuple[float, float, float]) -> str:
    """The three weights by name, for what a loss prints of itself."""
    return ", ".join(f"{name}={weight:g}" for name, weight in zip(WEIGHTS, weights, strict=True))


def with_settings(options: O, settings: dict[str, Any]) -> O:
    """The options with the settings that a function was given one by one."""
    return options.replace(**settings) if settings else options


class NotFiniteViews(ValueError):
    """The network's output, given to a loss, has NaN or infinite values."""


def stack_views(views: Sequence[Tensor]) -> Tensor:
    """The views, checked, as one tensor ``(v, b, p)``."""
    return torch.stack(check_views(views))


def check_views(views: Sequence[Tensor]) -> list[Tensor]:
    """The views in one precision of at least float32, after everything about them has been checked."""
    if len(views) < 2:
        raise ValueError(
            f"the loss compares views: it needs at least two embeddings, got {len(views)}; pass them one by one, as in "
            "loss(z1, z2) or loss(*views)"
        )
    converted = [at_least_float32(view, f"view {i}") for i, view in enumerate(views, 1)]
    first = converted[0]
    for i, view in enumerate(converted, 1):
        if view.dim() != 2:
            raise ValueError(f"view {i} must have shape (b, p), got {tuple(view.shape)}; flatten or pool it first")
        if view.shape != first.shape:
            raise ValueError(
                f"all views must have the same shape: view 1 is {tuple(first.shape)}, view {i} is {tuple(view.shape)}"
            )
        if view.device != first.device:
            raise ValueError(f"all views must be on one device: view 1 is on {first.device}, view {i} on {view.device}")
    if first.numel() == 0:
        raise ValueError(f"the views are empty, of shape {tuple(first.shape)}")
    dtype = torch.float64 if any(view.dtype == torch.float64 for view in converted) else torch.float32
    converted = [view.to(dtype) for view in converted]
    # Only where it is free to look: a CUDA device would have to be waited for at every step. There the loss shows it.
    if first.device.type == "cpu" and is_concrete():
        _check_finite([view.detach() for view in converted])
    return converted


def _check_finite(views: Sequence[Tensor]) -> None:
    # one cheap reduction in the good case; the sum of finite numbers may overflow, so count before complaining
    if math.isfinite(torch.stack([view.sum() for view in views]).sum()):
        return
    for i, view in enumerate(views, 1):
        bad = int((~view.isfinite()).sum())
        if bad:
            rows = int((~view.isfinite()).any(dim=1).sum())
            raise NotFiniteViews(
                f"view {i} has {bad} NaN or infinite values, in {rows} of its {len(view)} rows: "
                "the network diverged or its input was not finite; lower the learning rate or look at the data"
            )


def check_positive(**values: float) -> None:
    """Refuse settings that are not positive and finite, by name."""
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite, got {value}")
