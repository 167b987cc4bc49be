"""`--approximation auto`: exact while the loss is a small share of a step, else random features or landmarks."""

from __future__ import annotations

import time

import torch
from torch import nn

from kvicreg.runs import Settings
from kvicreg.training.cost import Clock, Cost, loss_cost

__all__ = ["choose_approximation"]

SHARE = 0.25
"""The part of a step that the exact loss may take."""
ROWS = 1024
"""Images at which losses are timed: from there the exact one grows with the third power, the others with the first."""
COMPONENTS = 512
RANDOM_FEATURES = ("rbf", "rq", "rational_quadratic")
"""Kernels with light-tailed frequencies; landmarks serve all others."""


def choose_approximation(
    settings: Settings, cost: Cost, batch_size: int, clock: Clock | None = None
) -> tuple[Settings, str]:
    """The settings with the approximation written out, and a sentence on why.

    Args:
        settings: with the approximation "auto".
        cost: of steps with the exact loss.
        batch_size: images in a batch.
        clock: see `cost.measure`.
    """
    if settings.engine.processes > 1:
        raise ValueError(
            "approximation auto goes by time, on which several processes would not agree: pass exact, random-fourier "
            "or nystrom"
        )
    kernel, exact = settings.flat()["kernel"], settings.replace(approximation="exact")
    if kernel == "linear" or not cost.is_known:
        return (
            exact,
            f"approximation auto: exact, {'as linear always is' if kernel == 'linear' else 'nothing is timed'}.",
        )
    name = "random-fourier" if kernel in RANDOM_FEATURES else "nystrom"
    approximated = settings.replace(approximation=name, components=COMPONENTS)
    rows = min(batch_size, ROWS)
    exact_seconds, exact_value = _measured(exact, rows, cost.device, clock or time.perf_counter)
    seconds, value = _measured(approximated, rows, cost.device, clock or time.perf_counter)
    exact_seconds, seconds = exact_seconds * (batch_size / rows) ** 3, seconds * batch_size / rows
    network = cost.image_seconds * batch_size
    exact_share, share = exact_seconds / (network + exact_seconds), seconds / (network + seconds)
    if exact_share <= SHARE or seconds >= exact_seconds:
        return exact, f"approximation auto: exact, which takes about {exact_share:.0%} of a step."
    return approximated, (
        f"approximation auto: {name} with {COMPONENTS} components takes about {share:.0%} of a step, where the exact "
        f"loss would take {exact_share:.0%}; their values differ by {abs(value / exact_value - 1):.1%} on random "
        "embeddings, and on these images by the approximation_error of each epoch in the metrics."
    )


def _measured(settings: Settings, rows: int, device: torch.device, clock: Clock) -> tuple[float, float]:
    """The seconds of the loss, forward and backward, and its value, on random embeddings."""
    loss: nn.Module = settings.method.method.Loss(**settings.method.loss_arguments(settings.engine.seed)).to(device)
    views, width = settings.method.views_seen.count, settings.model.projector.flat()["projector_outputs"]
    generator = torch.Generator().manual_seed(settings.engine.seed)
    z = [torch.randn(rows, width, generator=generator).to(device).requires_grad_() for _ in range(views)]
    return loss_cost(loss, z, clock)
