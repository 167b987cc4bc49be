"""What can be said of images before anything is trained: how many, how noisy, how varied, how much the views change."""

from __future__ import annotations

import torch
from torch import Tensor

from kvicreg.data import ImageData
from kvicreg.evaluation.diagnostics import alignment, effective_rank, spectrum
from kvicreg.evaluation.features import extract
from kvicreg.selection.criteria import retrieval
from kvicreg.training.build import build_method, build_views, resolve
from kvicreg.training.config import TrainConfig

__all__ = ["FACTS", "facts", "noise_level"]

FACTS = {
    "noise": "noise, as a share of the full range of brightness",
    "pixel_rank": "effective rank of the pixels",
    "initial_rank": "effective rank of the untrained encoder's features",
    "view_difference": "squared distance of two views by the untrained encoder, in units of that of two images",
    "initial_retrieval": "share of the images whose other view is their nearest by the untrained encoder",
}
"""What is measured, in words."""


def facts(data: ImageData, config: TrainConfig) -> dict[str, float]:
    """The facts of (a sample of) the images under a config's views and untrained encoder; labels are not looked at."""
    views = build_views(config, data)
    method = build_method(resolve(config, data, views))
    images = data.fetch(torch.arange(len(data)))
    small = torch.nn.functional.adaptive_avg_pool2d(images.float(), min(16, images.shape[-1])).flatten(1)
    seen = [
        extract(
            method.encoder,
            data,
            alter=lambda x, samples, view=view: views(x, samples, seed=0, epoch=0, view=view),  # type: ignore[misc]
            preprocess=lambda x: x,
        )
        for view in (0, 1)
    ]
    features = extract(method.encoder, data, preprocess=views.plain)
    one, two = (view - view.mean(0) for view in seen)
    shuffled = two.roll(1, 0)
    found = {
        "noise": noise_level(images),
        "pixel_rank": effective_rank(spectrum(small)),
        "initial_rank": effective_rank(spectrum(features)),
        "view_difference": alignment(one, two) / max(alignment(one, shuffled), 1e-12),
        "initial_retrieval": retrieval(*seen),
    }
    return {name: float(f"{value:.6g}") for name, value in found.items()}


def noise_level(images: Tensor) -> float:
    """Standard deviation of pixel noise as a share of 255, from what a mask blind to edges and ramps leaves.

    The mask is the product of two second differences, ``[1 -2 1]^T [1 -2 1]``: on independent noise of deviation s its
    response has deviation 6 s, and on anything smooth it vanishes. The median over the pixels ignores the few edges.
    """
    x = images.float().mean(1)
    rows = x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2]
    mask = rows[:, :, 2:] - 2 * rows[:, :, 1:-1] + rows[:, :, :-2]
    return float(mask.abs().median() / 0.6745 / 6 / 255)
