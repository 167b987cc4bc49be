"""Accuracy of a fixed probe as the test images shift away from those it was fitted on.

Five shifts at severities 0 (none: the images themselves) to 5. The direction of a rotation or translation and
the noise are addressed by (seed, image), so a severity changes how much, never which way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from kvicreg.data import uniform
from kvicreg.evaluation.intervals import Interval, bootstrap_interval
from kvicreg.evaluation.probes import LinearProbe
from kvicreg.measures.features import Alter

# shift -> (what the amount is, amounts at severities 0..5)
SHIFTS: dict[str, tuple[str, tuple[float, ...]]] = {
    "rotation": ("degrees, either way", (0, 10, 20, 30, 45, 60)),
    "contrast": ("contrast kept", (1, 0.8, 0.6, 0.4, 0.25, 0.15)),
    "noise": ("standard deviation, of the pixel range", (0, 0.05, 0.1, 0.15, 0.25, 0.4)),
    "blur": ("standard deviation, of the image side", (0, 0.02, 0.03, 0.04, 0.06, 0.08)),
    "translation": ("distance, of the image side", (0, 0.04, 0.08, 0.12, 0.16, 0.2)),
}
SEVERITIES = range(6)
PASSES = 1 + 5 * len(SHIFTS)
"""How often each image is encoded for all curves: severity 0 is the same for every shift."""


@dataclass(frozen=True)
class RobustnessCurve:
    """Accuracy with its interval at severities 0..5 of one shift."""

    shift: str
    unit: str
    amounts: tuple[float, ...]
    accuracy: list[Interval]


def shifted(images: Tensor, shift: str, severity: int, samples: Tensor, *, seed: int = 0) -> Tensor:
    """uint8 images (b, c, h, w) under a shift; severity 0 gives the images themselves.

    `samples` (b,) are the images' addresses: the same image shifts the same way in whatever batch it comes.
    """
    if shift not in SHIFTS:
        raise ValueError(f"shift must be one of {', '.join(SHIFTS)}, got {shift!r}")
    if severity not in SEVERITIES:
        raise ValueError(f"severity must be 0 to 5, got {severity}")
    if severity == 0:
        return images
    amount = SHIFTS[shift][1][severity]
    x = images.float()
    draw = uniform(samples.to(images.device), 1, seed=seed, epoch=0)[:, 0]
    if shift == "rotation":
        x = _affine(x, torch.where(draw < 0.5, -1.0, 1.0) * math.radians(amount))
    elif shift == "translation":
        angle = 2 * math.pi * draw
        x = _affine(x, torch.zeros_like(draw), torch.stack([angle.cos(), angle.sin()], 1) * 2 * amount)
    elif shift == "contrast":
        mean = x.mean((1, 2, 3), keepdim=True)
        x = mean + amount * (x - mean)
    elif shift == "blur":
        x = _blur(x, amount * min(x.shape[2:]))
    else:
        u = uniform(samples.to(images.device), x[0].numel(), seed=seed, epoch=1).clamp_min(2.0**-25)
        x = x + 255 * amount * torch.special.ndtri(u).view_as(x)
    return x.round().clamp(0, 255).to(torch.uint8)


def robustness(
    encode: Callable[[Alter], Tensor],
    probe: LinearProbe,
    labels: Tensor,
    *,
    shifts: tuple[str, ...] = tuple(SHIFTS),
    seed: int = 0,
) -> list[RobustnessCurve]:
    """Curves of a probe fitted on clean images; `encode(alter)` gives features of the altered test images."""

    def accuracy(shift: str, severity: int) -> Interval:
        features = encode(lambda images, samples: shifted(images, shift, severity, samples, seed=seed))
        return bootstrap_interval((probe.predict(features) == labels.cpu()).float(), seed=seed)

    clean, *beyond = SEVERITIES
    unshifted = accuracy(shifts[0], clean)  # the same for every shift
    return [
        RobustnessCurve(shift, *SHIFTS[shift], [unshifted, *(accuracy(shift, severity) for severity in beyond)])
        for shift in shifts
    ]


def _affine(x: Tensor, angle: Tensor, offset: Tensor | None = None) -> Tensor:
    """Rotate by angle (b,) about the centre, move by offset (b, 2) in half sides; mirrored outside."""
    h, w = x.shape[2:]
    cos, sin = angle.cos(), angle.sin()
    theta = torch.stack(
        [torch.stack([cos, -sin * h / w], 1), torch.stack([sin * w / h, cos], 1)], 1
    )  # output coordinates to input coordinates
    move = torch.zeros(len(x), 2, device=x.device) if offset is None else offset
    grid = F.affine_grid(torch.cat([theta, move[:, :, None]], 2), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def _blur(x: Tensor, sigma: float) -> Tensor:
    """Gaussian blur, separable, mirrored at the edges."""
    radius = min(math.ceil(3 * sigma), min(x.shape[2:]) - 1)
    offsets = torch.arange(-radius, radius + 1, device=x.device, dtype=x.dtype)
    kernel = (-0.5 * (offsets / sigma) ** 2).exp()
    kernel = kernel / kernel.sum()
    c = x.shape[1]
    x = F.pad(x, (radius,) * 4, mode="reflect")
    x = F.conv2d(x, kernel.view(1, 1, 1, -1).expand(c, 1, 1, -1), groups=c)
    return F.conv2d(x, kernel.view(1, 1, -1, 1).expand(c, 1, -1, 1), groups=c)
