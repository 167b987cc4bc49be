"""Every method with a small network without batch statistics, and a few steps of training by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kvicreg.methods import METHODS, Method, MethodOptions
from kvicreg.models import Projector, build_encoder

NAMES = METHODS.names()
OPTIONS = {
    "kernel-vicreg": {"views_per_image": 3, "local_crops": 1},
    "vicreg": {"views_per_image": 3},
    "moco": {"queue": 40},
    "swav": {"queue": 40, "prototypes": 12, "frozen_steps": 2, "local_crops": 1},
    "dino": {"frozen_steps": 2, "local_crops": 1},
    "simsiam": {"predictor_hidden": 8},
    "byol": {"predictor_hidden": 16},
    "kernel-byol": {"predictor_hidden": 16},
    "supervised": {"classes": 3},
}
BATCH, STEPS = 16, 6


def options_of(name: str) -> MethodOptions:
    return METHODS.find(name).of(**OPTIONS.get(name, {}))


def build(name: str, seed: int = 0, norm: str = "group") -> Method:
    return built(options_of(name), seed, norm)


def built(options: MethodOptions, seed: int = 0, norm: str = "group") -> Method:
    torch.manual_seed(seed)
    encoder = build_encoder("small-cnn", 1, 8, width=0.25, pool=1, norm=norm)
    projector = Projector(int(encoder.feature_dim), 16, 8, 2, norm)
    method = options.build(encoder, projector, norm="group").double()
    method.view_count = options.views_seen.count
    return method


def batch(step: int, rank: int = 0, world: int = 1, views: int = 2) -> tuple[list[Tensor], Tensor]:
    """This process's part of the views and labels of a step: a function of the step alone."""
    generator = torch.Generator().manual_seed(step)
    images = torch.randn(BATCH, 1, 8, 8, generator=generator, dtype=torch.float64)
    noisy = [images + 0.3 * torch.randn(images.shape, generator=generator, dtype=torch.float64) for _ in range(views)]
    labels = torch.randint(3, (BATCH,), generator=generator)
    mine = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
    return [view[mine] for view in noisy], labels[mine]


def optimizer_of(method: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for p in method.parameters() if p.requires_grad], lr=0.01, momentum=0.9)


def advance(
    method: Method,
    optimizer: torch.optim.Optimizer,
    steps: range,
    *,
    rank: int = 0,
    world: int = 1,
    through: nn.Module | None = None,
) -> None:
    """Train by hand; `through` is what wraps the method (DDP)."""
    for step in steps:
        views, labels = batch(step, rank, world, views=method.view_count)
        loss = (through or method)(views, step, labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_step(step + 1, STEPS)
