"""What can be told of images before anything is trained: how noisy, how varied, how much the views change them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kvicreg.data import ImageData, Views
from kvicreg.evaluation.diagnostics import alignment
from kvicreg.measures.features import dtype_of, extract
from kvicreg.measures.spectrum import effective_rank, spectrum
from kvicreg.runs import Settings
from kvicreg.selection.criteria import retrieval
from kvicreg.training.build import build_method, build_views, resolve

__all__ = ["FACTS", "facts", "noise_level", "plain_features", "view_features"]

FACTS = {
    "noise": "noise, as a share of the full range of brightness",
    "pixel_rank": "effective rank of the pixels",
    "initial_rank": "effective rank of the untrained encoder's features",
    "view_difference": "squared distance of two views by the untrained encoder, in units of that of two images",
    "initial_retrieval": "share of the images whose other view is their nearest by the untrained encoder",
}
"""What is measured, in words."""


def facts(data: ImageData, settings: Settings) -> dict[str, float]:
    """The facts of (a sample of) the images under the settings' views and untrained encoder; no label is looked at."""
    views = build_views(settings, data)
    encoder = build_method(resolve(settings, data, views)).encoder
    images = data.fetch(torch.arange(len(data)))
    pixels = torch.nn.functional.adaptive_avg_pool2d(images.float(), min(16, images.shape[-1])).flatten(1)
    both = [view_features(encoder, data, views, view) for view in (0, 1)]
    one, two = (features - features.mean(0) for features in both)
    values = {
        "noise": noise_level(images),
        "pixel_rank": effective_rank(spectrum(pixels)),
        "initial_rank": effective_rank(spectrum(plain_features(encoder, data, views))),
        "view_difference": alignment(one, two) / max(alignment(one, two.roll(1, 0)), 1e-12),
        "initial_retrieval": retrieval(*both),
    }
    return {name: float(f"{value:.6g}") for name, value in values.items()}


def plain_features(encoder: nn.Module, data: ImageData, views: Views) -> Tensor:
    """Features (n, q) of the images themselves."""
    return extract(encoder, data, preprocess=lambda images: views.plain(images).to(dtype_of(encoder)))


def view_features(encoder: nn.Module, data: ImageData, views: Views, view: int) -> Tensor:
    """Features (n, q) of one random view of each image, the same view every time."""
    return extract(
        encoder,
        data,
        alter=lambda images, samples: views(images, samples, seed=0, epoch=0, view=view),
        preprocess=lambda images: images.to(dtype_of(encoder)),
    )


def noise_level(images: Tensor) -> float:
    """Standard deviation of pixel noise as a share of 255, from what a mask blind to edges and ramps leaves.

    The mask is the product of two second differences, ``[1 -2 1]^T [1 -2 1]``: on independent noise of deviation s its
    response has deviation 6 s, and on anything smooth it vanishes. The median over the pixels ignores the few edges.
    """
    x = images.float().mean(1)
    rows = x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2]
    mask = rows[:, :, 2:] - 2 * rows[:, :, 1:-1] + rows[:, :, :-2]
    return float(mask.abs().median() / 0.6745 / 6 / 255)
