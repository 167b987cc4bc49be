"""Random views of a batch, computed on its device in a handful of batched operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from kvicreg.data.addresses import uniform
from kvicreg.data.images import ImageData
from kvicreg.data.pixels import MAX_CHANNELS
from kvicreg.data.presets import ViewConfig, ViewOptions
from kvicreg.data.transforms import (
    LUMA,
    affine_maps,
    blur,
    colour_matrices,
    compose,
    constant,
    crop_boxes,
    crop_maps,
    on_chosen,
    sample,
    solarize,
)

# The column of each random number at a sample's address. New ones go to the end: the others keep their values.
_PARAMETERS = (
    "area", "ratio", "left", "top", "flip", "jitter", "brightness", "contrast", "saturation", "hue",
    "grayscale", "blur", "sigma", "solarize", "angle", "shift_x", "shift_y", "scale", "shear",
)  # fmt: skip
_LATTICE = 4  # points along a side at which a bent image is shifted
Numbers = dict[str, Tensor]  # of each parameter, (b,): uniform on [0, 1) or on [-1, 1)


class Views:
    """Turns images into normalised random views, and into the plain images that evaluation uses.

    Crop, flip, affine and bending are one bilinear reading of the image; brightness, contrast, saturation, hue and
    grayscale are one colour matrix per sample; blur, clamping to [0, 1], solarize and normalisation follow.
    Values are clamped once, at the end of the colour operations.

    Three channels are red, green and blue. Of any other number, brightness and contrast change each channel by the same
    factors, around its own mean, and what is defined for colours alone is left out: `skipped` tells.

    Args:
        config: the strengths.
        size: side of the views, in pixels.
        mean, std: of the data, per channel, on the scale [0, 1].

    Example:
        >>> data = load("mnist-small")
        >>> views = Views.of(data)  # preset, size, mean and std of the data
        >>> images, samples, labels = next(batches(data, 256, seed=0, epoch=3))
        >>> x1, x2 = (views(images, samples, seed=0, epoch=3, view=view) for view in (0, 1))
        >>> x1.shape
        torch.Size([256, 1, 28, 28])
    """

    def __init__(self, config: ViewConfig, *, size: int, mean: Sequence[float], std: Sequence[float]) -> None:
        if size < 1:
            raise ValueError(f"size: expected at least one pixel, got {size}")
        if len(mean) != len(std) or not 1 <= len(mean) <= MAX_CHANNELS or min(std) <= 0:
            raise ValueError(
                f"mean, std: expected 1 to {MAX_CHANNELS} numbers each, std above 0, got {tuple(mean)} and {tuple(std)}"
            )
        self.config, self.size = config, size
        self.mean, self.std = tuple(mean), tuple(std)
        self._low = tuple(-m / s for m, s in zip(mean, std, strict=True))  # 0 and 1 on the normalised scale
        self._high = tuple((1 - m) / s for m, s in zip(mean, std, strict=True))

    @classmethod
    def of(cls, data: ImageData, config: ViewConfig | None = None) -> Views:
        """The views that fit `data`: its preset unless `config` is given, its size, its mean and deviation."""
        mean, std = normalisation(data)
        return cls(config or ViewOptions().config(data.name, data.shape[2]), size=data.shape[2], mean=mean, std=std)

    @property
    def skipped(self) -> tuple[str, ...]:
        """The strengths that are not 0 but have no meaning for images of so many channels."""
        if len(self.mean) == 3:
            return ()
        return tuple(name for name in ("saturation", "hue", "grayscale") if getattr(self.config, name) > 0)

    @torch.no_grad()
    def __call__(self, images: Tensor, samples: Tensor, *, seed: int, epoch: int, view: int) -> Tensor:
        """One view of each image, float32 (b, c, size, size), at the address (seed, epoch, sample, view).

        Args:
            images: (b, c, s, s), uint8, or float with values from 0 to 255.
            samples: their indices in the data set, int64 (b,).
            view: 0 for the first view, 1 for the second, and so on.
        """
        self._check(images)
        samples = samples.to(images.device, non_blocking=True)
        if samples.shape != images.shape[:1]:
            raise ValueError(f"samples: expected {len(images)} indices, got shape {tuple(samples.shape)}")
        lattice = 2 * _LATTICE**2 if self.config.elastic else 0
        drawn = uniform(samples, len(_PARAMETERS) + lattice, seed=seed, epoch=epoch, view=view)
        numbers, shifts = drawn.split((len(_PARAMETERS), lattice), 1)
        chance = dict(zip(_PARAMETERS, numbers.unbind(1), strict=True))
        signed = dict(zip(_PARAMETERS, (2 * numbers - 1).unbind(1), strict=True))
        bend = 2 * self.config.elastic * (2 * shifts - 1).view(-1, 2, _LATTICE, _LATTICE) if lattice else None
        with torch.autocast(images.device.type, enabled=False):  # pixels need more digits than bfloat16 has
            x = self._geometry(images, chance, signed, bend)
            x = self._blur(x, chance)  # linear with weights that sum to one: it commutes with the colour matrix
            return self._solarize(self._colour(x, chance, signed), chance)

    def plain(self, images: Tensor) -> Tensor:
        """The images themselves, float32 (b, c, size, size): resized where needed and normalised."""
        self._check(images)
        x = images.to(torch.float32, copy=True)
        if images.shape[2] != self.size:
            x = torch.nn.functional.interpolate(
                x, (self.size, self.size), mode="bilinear", antialias=True, align_corners=False
            )
        return self._normalised(x)

    def pixels(self, views: Tensor) -> Tensor:
        """Views back as uint8 images, to be looked at."""
        mean = torch.tensor(self.mean, device=views.device)[:, None, None]
        std = torch.tensor(self.std, device=views.device)[:, None, None]
        return ((views * std + mean) * 255).round_().clamp_(0, 255).to(torch.uint8)

    def _check(self, images: Tensor) -> None:
        is_numeric = images.dtype == torch.uint8 or images.is_floating_point()
        if not is_numeric or images.ndim != 4 or images.shape[1] != len(self.mean):
            raise ValueError(
                f"images: expected uint8 or float (b, {len(self.mean)}, s, s), got {images.dtype} {tuple(images.shape)}"
            )

    def _geometry(self, images: Tensor, u: Numbers, v: Numbers, bend: Tensor | None) -> Tensor:
        """Crop, flip, affine and bending in one reading; beyond the border moved images are black, cropped repeat."""
        c = self.config
        if not c.affine and not c.crops and images.shape[2] == self.size:
            return images.to(torch.float32, copy=True)
        if c.crops or not c.affine:
            area = c.crop_area_max - (c.crop_area_max - c.crop_area) * u["area"]
            boxes = crop_boxes(area, v["ratio"], v["left"], v["top"], c.crop_ratio)
            maps = crop_maps(boxes, u["flip"] < c.flip)
        if not c.affine:
            return sample(images, maps, self.size, "border")
        outer = affine_maps(
            math.radians(c.rotation) * v["angle"],
            math.radians(c.shear) * v["shear"],
            1 + c.zoom * v["scale"],
            c.translation * v["shift_x"],
            c.translation * v["shift_y"],
        )
        return sample(images, compose(outer, maps) if c.crops else outer, self.size, "zeros", bend)

    def _blur(self, x: Tensor, u: Numbers) -> Tensor:
        c = self.config
        if c.blur == 0:
            return x
        return on_chosen(x, u["blur"] < c.blur, blur, 0.1 + (c.blur_sigma - 0.1) * u["sigma"])

    def _colour(self, x: Tensor, u: Numbers, v: Numbers) -> Tensor:
        """Colour matrix and clamp, from values in [0, 255] to the normalised scale, which both absorb."""
        c = self.config
        if c.jitter == 0 and c.grayscale == 0:
            return self._normalised(x)
        applied = (u["jitter"] < c.jitter).float()
        brightness, contrast, saturation = (
            (1 + applied * strength * v[name]).clamp_(min=0)
            for name, strength in (("brightness", c.brightness), ("contrast", c.contrast), ("saturation", c.saturation))
        )
        mean = x.mean((2, 3))
        if len(self.mean) == 3:
            saturation = torch.where(u["grayscale"] < c.grayscale, 0.0, saturation)
            matrices, k = colour_matrices(brightness, contrast, saturation, applied * c.hue * v["hue"])
            luma = (mean @ constant(LUMA, x.device))[:, None]
        else:
            matrices = (brightness * contrast)[:, None, None] * torch.eye(
                len(self.mean), device=x.device, dtype=x.dtype
            )
            k, luma = brightness * (1 - contrast), mean
        scale, low = constant(tuple(1 / (255 * std) for std in self.std), x.device), constant(self._low, x.device)
        bias = k[:, None] * luma * scale + low
        x = torch.baddbmm(bias[:, :, None], matrices * scale[:, None], x.flatten(2)).view_as(x)
        for channel, (low_end, high_end) in enumerate(zip(self._low, self._high, strict=True)):
            x[:, channel].clamp_(low_end, high_end)
        return x

    def _solarize(self, x: Tensor, u: Numbers) -> Tensor:
        if self.config.solarize == 0:
            return x
        middle = constant(tuple((a + b) / 2 for a, b in zip(self._low, self._high, strict=True)), x.device)
        return on_chosen(x, u["solarize"] < self.config.solarize, partial(solarize, middle=middle[:, None, None]))

    def _normalised(self, x: Tensor) -> Tensor:
        """Values in [0, 255] on the normalised scale, in place."""
        for channel, std in enumerate(self.std):
            x[:, channel].mul_(1 / (255 * std)).add_(self._low[channel])
        return x


def normalisation(data: ImageData) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel on [0, 1], of all images (evenly spaced ones where that is too much).

    In memory up to 200 million values are read, which is all of MNIST and CIFAR-10; of files, 512 images.

    Example:
        >>> [round(value[0], 2) for value in normalisation(load("mnist-small"))]
        [0.13, 0.31]
    """
    limit = int(2e8) // math.prod(data.shape) if data.in_memory else 512
    indices = torch.linspace(0, len(data) - 1, min(len(data), limit), dtype=torch.float64).round().long()
    total, square = torch.zeros(2, data.shape[0], dtype=torch.float64)
    for chunk in torch.split(indices, 256):
        images = data.fetch(chunk).float()
        total += images.mean((0, 2, 3)) * len(chunk)
        square += images.square_().mean((0, 2, 3)) * len(chunk)
    mean = total / len(indices)
    std = (square / len(indices) - mean**2).clamp(min=1e-4 * 255**2).sqrt()
    return tuple(round(m / 255, 4) for m in mean.tolist()), tuple(round(s / 255, 4) for s in std.tolist())
