"""A view is its parts, one after the other, with the numbers of its address; chances and ends are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from kvicreg.data import ArrayData, FileData, ViewConfig, Views, normalisation, transforms
from kvicreg.data import views as views_module
from kvicreg.data.addresses import uniform
from kvicreg.data.transforms import LUMA, affine_maps, blur, colour_matrices, compose, crop_boxes, crop_maps, sample

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
MOVES = {"rotation": 40.0, "translation": 0.2, "zoom": 0.3, "shear": 25.0}
CONFIGS = {
    "affine": ViewConfig(**MOVES),
    "rotation": ViewConfig(rotation=40.0),
    "crop": ViewConfig(crop_area=0.2, crop_area_max=0.7, crop_ratio=2.0, flip=0.5),
    "crop and affine": ViewConfig(crop_area=0.4, flip=0.5, **MOVES),
    "bend": ViewConfig(elastic=0.1),
    "all of the geometry": ViewConfig(crop_area=0.4, flip=0.5, elastic=0.1, **MOVES),
    "blur": ViewConfig(blur=0.5, blur_sigma=3.0),
    "colour": ViewConfig(jitter=0.6, brightness=0.5, contrast=0.4, saturation=0.7, hue=0.2),
    "grayscale": ViewConfig(grayscale=0.5),
    "grey": ViewConfig(grayscale=1.0),
    "colour and grayscale": ViewConfig(jitter=0.6, brightness=1.0, contrast=0.9, saturation=1.0, grayscale=0.5),
    "solarize": ViewConfig(solarize=0.5),
    "everything": ViewConfig(
        crop_area=0.4, flip=0.5, jitter=0.8, brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, grayscale=0.2,
        blur=0.5, solarize=0.3, elastic=0.05, **MOVES,
    ),
}  # fmt: skip


def pictures(channels: int, size: int = 18) -> Tensor:
    coarse = torch.rand(12, channels, 6, 6, generator=torch.Generator().manual_seed(0))
    return (torch.nn.functional.interpolate(coarse, (size, size), mode="bilinear") * 255).to(torch.uint8)


def expected_view(c: ViewConfig, images: Tensor, size: int, seed: int, epoch: int, view: int) -> Tensor:
    """The view on the scale from 0 to 255, part by part."""
    lattice = 32 if c.elastic else 0
    drawn = uniform(torch.arange(len(images)), 19 + lattice, seed=seed, epoch=epoch, view=view)
    u = dict(zip(views_module._PARAMETERS, drawn[:, :19].unbind(1), strict=True))
    v = {name: 2 * number - 1 for name, number in u.items()}
    area = c.crop_area_max - (c.crop_area_max - c.crop_area) * u["area"]
    crops = crop_maps(crop_boxes(area, v["ratio"], v["left"], v["top"], c.crop_ratio), u["flip"] < c.flip)
    moves = affine_maps(
        v["angle"] * c.rotation * math.pi / 180, v["shear"] * c.shear * math.pi / 180, 1 + c.zoom * v["scale"],
        c.translation * v["shift_x"], c.translation * v["shift_y"],
    )  # fmt: skip
    bend = (2 * drawn[:, 19:] - 1).view(-1, 2, 4, 4) * 2 * c.elastic if lattice else None
    x = sample(images, compose(moves, crops), size, "zeros" if c.affine else "border", bend)
    soft = blur(x, 0.1 + (c.blur_sigma - 0.1) * u["sigma"])
    x = torch.where((u["blur"] < c.blur)[:, None, None, None], soft, x)
    on = (u["jitter"] < c.jitter).float()
    b, k, s = ((1 + on * getattr(c, name) * v[name]).clamp(min=0) for name in ("brightness", "contrast", "saturation"))
    if images.shape[1] == 3:
        s = torch.where(u["grayscale"] < c.grayscale, 0.0, s)
        matrices, _ = colour_matrices(b, k, s, on * c.hue * v["hue"])
        middle = (x * torch.tensor(LUMA)[:, None, None]).sum(1).mean((1, 2))
        x = (matrices @ x.flatten(2)).view_as(x) + (b * (1 - k) * middle)[:, None, None, None]
    else:
        b, k = b[:, None, None, None], k[:, None, None, None]
        x = b * (k * x + (1 - k) * x.mean((2, 3), keepdim=True))
    x = x.clamp(0, 255)
    return torch.where((u["solarize"] < c.solarize)[:, None, None, None], torch.minimum(x, 255 - x), x)


@pytest.mark.parametrize("channels", [3, 2])
@pytest.mark.parametrize("size", [18, 12])
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_view_is_its_parts_at_its_address(kind: str, size: int, channels: int) -> None:
    images = pictures(channels)
    views = Views(CONFIGS[kind], size=size, mean=MEAN[:channels], std=STD[:channels])
    address = {"seed": 3, "epoch": 5, "view": 1}
    mean, std = torch.tensor(views.mean)[:, None, None], torch.tensor(views.std)[:, None, None]
    shown = (views(images, torch.arange(12), **address) * std + mean) * 255
    torch.testing.assert_close(shown, expected_view(CONFIGS[kind], images, size, **address), atol=0.05, rtol=0)


def test_a_chance_is_met_below_its_number_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all numbers 0.5 a chance of 0.5 is not met, and no strength has a direction: the view is the image."""
    chances = dict.fromkeys(("flip", "jitter", "grayscale", "blur", "solarize"), 0.5)
    views = Views(ViewConfig(brightness=0.4, **chances), size=18, mean=MEAN, std=STD)
    numbers = torch.full((12, 19), 0.5)
    numbers[:, views_module._PARAMETERS.index("brightness")] = 0.9
    monkeypatch.setattr(views_module, "uniform", lambda *_, **__: numbers)
    shown = views(pictures(3), torch.arange(12), seed=0, epoch=0, view=0)
    torch.testing.assert_close(shown, views.plain(pictures(3)), atol=1e-4, rtol=0)


def test_views_as_pixels_are_rounded_and_cut_at_black_and_white() -> None:
    views = Views(ViewConfig(), size=1, mean=(0.5,), std=(0.25,))
    values = torch.tensor([-9.0, -2.0, 0.0, 2.0, 9.0, (100.6 / 255 - 0.5) / 0.25]).view(-1, 1, 1, 1)
    assert views.pixels(values).flatten().tolist() == [0, 0, 128, 255, 255, 101]


def test_floats_given_to_views_are_left_as_they_are() -> None:
    images = pictures(3).float()
    before = images.clone()
    views = Views(ViewConfig(solarize=1.0), size=18, mean=MEAN, std=STD)
    views(images, torch.arange(12), seed=0, epoch=0, view=0)
    views.plain(images)
    assert torch.equal(images, before)


@pytest.mark.parametrize(
    ("size", "mean", "std", "message"),
    [
        (0, (0.5,), (0.5,), "size: expected at least one pixel, got 0"),
        (8, (0.5,), (0.5, 0.5), r"got \(0\.5,\) and \(0\.5, 0\.5\)"),
        (8, (), (), "expected 1 to 32 numbers each, std above 0"),
        (8, (0.5,) * 33, (0.5,) * 33, "expected 1 to 32 numbers each, std above 0"),
        (8, (0.5, 0.5), (0.5, 0.0), "expected 1 to 32 numbers each, std above 0"),
    ],
)
def test_views_of_wrong_numbers_are_refused(size: int, mean: tuple, std: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Views(ViewConfig(), size=size, mean=mean, std=std)
    assert Views(ViewConfig(), size=1, mean=(0.5,) * 32, std=(1e-3,) * 32).size == 1


def test_normalisation_looks_at_evenly_spaced_files(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    looked: list[int] = []

    def fetch(self, indices: Tensor) -> Tensor:
        looked.extend(indices.tolist())
        return torch.where(indices == 1022, 255.0, 51.0).view(-1, 1, 1, 1).repeat(1, 1, 2, 2)

    monkeypatch.setattr(FileData, "fetch", fetch)
    data = FileData([tmp_path / "a.png"] * 1023, channels=1, size=2)
    mean, std = normalisation(data)
    assert looked == list(range(0, 1024, 2))
    assert mean == (round(0.2 + 0.8 / 512, 4),)
    assert std == (round(0.8 * math.sqrt(511) / 512, 4),)


def test_normalisation_of_arrays_reads_every_image_and_has_a_least_deviation() -> None:
    pixels = np.zeros((600, 2, 2, 2), np.uint8)
    pixels[599, 0] = 255
    mean, std = normalisation(ArrayData(pixels))
    assert mean == (round(1 / 600, 4), 0.0)
    assert std == (round(math.sqrt(599) / 600, 4), 0.01)


@pytest.mark.parametrize(("channels", "shown"), [(1, [10]), (2, [10, 20, 0]), (3, [10, 20, 30]), (5, [10, 20, 30])])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_what_is_visible_of_many_channels(channels: int, shown: list[int], dtype: torch.dtype) -> None:
    values = torch.arange(10, 60, 10)[:channels].to(dtype) + (0.4 if dtype.is_floating_point else 0)
    images = values[:, None, None].expand(4, 2, channels, 3, 3)
    seen = transforms.visible(images)
    assert (seen.dtype, seen.shape) == (torch.uint8, (4, 2, len(shown), 3, 3))
    assert seen[3, 1, :, 2, 2].tolist() == shown
