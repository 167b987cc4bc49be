"""Random views of a batch, computed on its device in a handful of batched operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from kvicreg.data.addresses import uniform
from kvicreg.data.images import ImageData
from kvicreg.data.presets import ViewConfig, view_config
from kvicreg.data.transforms import (
    LUMA,
    affine_maps,
    blur,
    colour_matrices,
    compose,
    crop_boxes,
    crop_maps,
    sample,
)

# The column of each random number at a sample's address. New ones go to the end: the others keep their
# values.
_PARAMETERS = (
    "area", "ratio", "left", "top", "flip", "jitter", "brightness", "contrast", "saturation", "hue",
    "grayscale", "blur", "sigma", "solarize", "angle", "shift_x", "shift_y", "scale", "shear",
)  # fmt: skip


class Views:
    """Turns uint8 images into normalised random views, and into the plain images that evaluation uses.

    Crop, flip and affine are one bilinear reading of the image; brightness, contrast, saturation, hue and
    grayscale are one colour matrix per sample; blur, clamping to [0, 1], solarize and normalisation follow.
    Values are clamped once, at the end of the colour operations.

    Args:
        config: the strengths.
        size: side of the views, in pixels.
        mean, std: of the data, per channel, on the scale [0, 1].

    Example:
        >>> views = Views.of(data)  # preset, size, mean and std of the data
        >>> for images, samples, labels in batches(data, 256, seed=0, epoch=3):
        ...     x1 = views(images, samples, seed=0, epoch=3, view=0)
        ...     x2 = views(images, samples, seed=0, epoch=3, view=1)
    """

    def __init__(self, config: ViewConfig, *, size: int, mean: Sequence[float], std: Sequence[float]) -> None:
        if size < 1:
            raise ValueError(f"size: expected at least one pixel, got {size}")
        if len(mean) != len(std) or len(mean) not in (1, 3) or min(std) <= 0:
            raise ValueError(f"mean, std: expected 1 or 3 numbers each, std above 0, got {mean} and {std}")
        self.config, self.size = config, size
        self.mean, self.std = tuple(mean), tuple(std)

    @classmethod
    def of(cls, data: ImageData, config: ViewConfig | None = None) -> Views:
        """The views that fit `data`: its preset unless `config` is given, its size, its mean and
        deviation.
        """
        mean, std = normalisation(data)
        return cls(config or view_config(data.name), size=data.shape[2], mean=mean, std=std)

    def __call__(self, images: Tensor, samples: Tensor, *, seed: int, epoch: int, view: int) -> Tensor:
        """One view of each image, float32 (b, c, size, size), at the address (seed, epoch, sample, view).

        Args:
            images: uint8 (b, c, s, s).
            samples: their indices in the data set, int64 (b,).
            view: 0 for the first view, 1 for the second, and so on.
        """
        self._check(images)
        samples = samples.to(images.device, non_blocking=True)
        if samples.shape != images.shape[:1]:
            raise ValueError(f"samples: expected {len(images)} indices, got shape {tuple(samples.shape)}")
        numbers = uniform(samples, len(_PARAMETERS), seed=seed, epoch=epoch, view=view)
        u = dict(zip(_PARAMETERS, numbers.unbind(1), strict=True))
        x = self._geometry(images.float(), u)
        x = self._blur(x, u)
        return self._colour(x, u)

    def plain(self, images: Tensor) -> Tensor:
        """The images themselves, float32 (b, c, size, size): resized where needed and normalised."""
        self._check(images)
        x = images.float()
        if images.shape[2] != self.size:
            x = torch.nn.functional.interpolate(
                x, (self.size, self.size), mode="bilinear", antialias=True, align_corners=False
            )
        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            x[:, channel].mul_(1 / (255 * std)).sub_(mean / std)
        return x

    def pixels(self, views: Tensor) -> Tensor:
        """Views back as uint8 images, to be looked at."""
        mean = torch.tensor(self.mean, device=views.device)[:, None, None]
        std = torch.tensor(self.std, device=views.device)[:, None, None]
        return ((views * std + mean) * 255).round_().clamp_(0, 255).to(torch.uint8)

    def _check(self, images: Tensor) -> None:
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != len(self.mean):
            raise ValueError(
                f"images: expected uint8 (b, {len(self.mean)}, s, s), got {images.dtype} {tuple(images.shape)}"
            )

    def _geometry(self, x: Tensor, u: dict[str, Tensor]) -> Tensor:
        """Crop, flip and affine in one reading; beyond the border a moved image is black, a cropped one
        repeats.
        """
        c = self.config
        moves = c.affine or c.crop_area < 1 or c.flip > 0 or x.shape[2] != self.size
        if not moves:
            return x
        boxes = crop_boxes(1 - (1 - c.crop_area) * u["area"], u["ratio"], u["left"], u["top"], c.crop_ratio)
        maps = crop_maps(boxes, u["flip"] < c.flip)
        if not c.affine:
            return sample(x, maps, self.size, "border")
        angle, shear = (
            math.radians(c.rotation) * _signed(u["angle"]),
            math.radians(c.shear) * _signed(u["shear"]),
        )
        shift_x, shift_y = c.translation * _signed(u["shift_x"]), c.translation * _signed(u["shift_y"])
        outer = affine_maps(angle, shear, 1 + c.scale * _signed(u["scale"]), shift_x, shift_y)
        return sample(x, compose(outer, maps), self.size, "zeros")

    def _blur(self, x: Tensor, u: dict[str, Tensor]) -> Tensor:
        """Blur is linear and its weights sum to one, so it may come before the colour matrix just as well as
        after.
        """
        c = self.config
        if c.blur == 0:
            return x
        chosen, sigma = u["blur"] < c.blur, 0.1 + (c.blur_sigma - 0.1) * u["sigma"]
        if x.is_cuda:  # picking rows out would make the host wait for the device: blur them all, some by nothing
            return blur(x, torch.where(chosen, sigma, 1e-3))
        rows = chosen.nonzero().squeeze(1)
        return x.index_copy_(0, rows, blur(x[rows], sigma[rows])) if len(rows) else x

    def _colour(self, x: Tensor, u: dict[str, Tensor]) -> Tensor:
        """Colour matrix, clamp, solarize and normalisation, all on the normalised scale."""
        c, b = self.config, len(x)
        applied = (u["jitter"] < c.jitter).float()
        brightness = (1 + applied * c.brightness * _signed(u["brightness"])).clamp_(min=0)
        contrast = (1 + applied * c.contrast * _signed(u["contrast"])).clamp_(min=0)
        inverse_std = torch.tensor([1 / std for std in self.std], device=x.device)
        shift = torch.tensor([-mean / std for mean, std in zip(self.mean, self.std, strict=True)], device=x.device)
        if len(self.mean) == 3:
            saturation = (1 + applied * c.saturation * _signed(u["saturation"])).clamp_(min=0)
            saturation = torch.where(u["grayscale"] < c.grayscale, 0.0, saturation)
            matrices, k = colour_matrices(brightness, contrast, saturation, applied * c.hue * _signed(u["hue"]))
            mean_luma = x.mean((2, 3)) @ torch.tensor(LUMA, device=x.device)
        else:
            matrices, k, mean_luma = (
                (brightness * contrast)[:, None, None],
                brightness * (1 - contrast),
                x.mean((1, 2, 3)),
            )
        bias = (k * mean_luma / 255)[:, None] * inverse_std + shift
        x = torch.baddbmm(bias[:, :, None], matrices * (inverse_std / 255)[:, None], x.reshape(b, len(self.mean), -1))
        x = x.view(b, len(self.mean), self.size, self.size)
        solarized = (u["solarize"] < c.solarize)[:, None, None] if c.solarize else None
        for channel, (mean, std) in enumerate(zip(self.mean, self.std, strict=True)):
            plane, low, high = x[:, channel], -mean / std, (1 - mean) / std
            if c.jitter:
                plane.clamp_(low, high)
            if solarized is not None:
                plane.copy_(torch.where(solarized & (plane >= (low + high) / 2), low + high - plane, plane))
        return x


def _signed(u: Tensor) -> Tensor:
    """Uniform on [-1, 1) from uniform on [0, 1)."""
    return 2 * u - 1


def normalisation(data: ImageData) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel on [0, 1], over at most 10,000 (files: 512) evenly spaced
    images.
    """
    limit = 10_000 if data.in_memory else 512
    indices = torch.linspace(0, len(data) - 1, min(len(data), limit)).round().long()
    total, square, count = torch.zeros(data.shape[0]), torch.zeros(data.shape[0]), 0
    total, square = total.double(), square.double()
    for chunk in torch.split(indices, 256):
        images = data.fetch(chunk).double() / 255
        total += images.sum((0, 2, 3))
        square += images.square().sum((0, 2, 3))
        count += images[:, 0].numel()
    mean = total / count
    std = (square / count - mean**2).clamp(min=1e-4).sqrt()
    return tuple(round(m, 4) for m in mean.tolist()), tuple(round(s, 4) for s in std.tolist())
