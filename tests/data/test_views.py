"""Views as a whole: known numbers give the picture that Pillow makes; addresses alone decide; presets make sense."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from kvicreg.data import PRESETS, ArrayData, ViewConfig, Views, load, normalisation, view_config
from kvicreg.data import views as views_module
from kvicreg.data.presets import ViewOptions

NATURAL = view_config("natural")


@pytest.fixture
def images() -> torch.Tensor:
    coarse = torch.rand(16, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    return (torch.nn.functional.interpolate(coarse, (24, 24), mode="bilinear") * 255).to(torch.uint8)


def make(config: ViewConfig, size: int = 24, channels: int = 3) -> Views:
    return Views(config, size=size, mean=(0.5, 0.4, 0.3)[:channels], std=(0.2, 0.25, 0.3)[:channels])


def test_the_parts_follow_each_other_as_with_pillow(photo: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = dict.fromkeys(views_module._PARAMETERS, 0.999)
    numbers |= {"area": 0.625, "ratio": 0.5, "left": 0.0, "top": 1.0, "flip": 0.0}  # half of the area
    numbers |= {"jitter": 0.0, "brightness": 0.25, "contrast": 0.75, "saturation": 0.25, "hue": 0.5, "solarize": 0.0}
    monkeypatch.setattr(views_module, "uniform", lambda samples, count, **_: torch.tensor([list(numbers.values())]))
    soft = (photo * 0.5 + 60).astype(np.uint8)
    views = make(dataclasses.replace(NATURAL, solarize=0.5))
    images = torch.from_numpy(soft).permute(2, 0, 1)[None]
    ours = views.pixels(views(images, torch.tensor([0]), seed=0, epoch=0, view=0))[0].permute(1, 2, 0).numpy()
    side = 24 * 0.5**0.5
    theirs = Image.fromarray(soft).resize((24, 24), Image.Resampling.BILINEAR, box=(0, 24 - side, side, 24))
    theirs = ImageOps.mirror(theirs)
    theirs = ImageEnhance.Brightness(theirs).enhance(0.8)
    theirs = ImageEnhance.Contrast(theirs).enhance(1.2)
    theirs = ImageEnhance.Color(theirs).enhance(0.9)
    theirs = ImageOps.solarize(theirs, 128)
    assert np.abs(ours.astype(int) - np.asarray(theirs).astype(int)).max() <= 5  # Pillow rounds five times


def test_plain_images_are_normalised(images: torch.Tensor) -> None:
    views = make(NATURAL)
    mean, std = torch.tensor(views.mean)[:, None, None], torch.tensor(views.std)[:, None, None]
    torch.testing.assert_close(views.plain(images), (images.float() / 255 - mean) / std, atol=1e-5, rtol=1e-5)


def test_plain_images_are_resized_as_pillow_does(photo: np.ndarray) -> None:
    views = make(NATURAL, size=10)
    images = torch.from_numpy(photo.copy()).permute(2, 0, 1)[None]
    ours = views.pixels(views.plain(images))[0].permute(1, 2, 0).numpy().astype(int)
    theirs = np.asarray(Image.fromarray(photo).resize((10, 10), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(ours - theirs).max() <= 1


def test_pixels_undo_the_normalisation(images: torch.Tensor) -> None:
    views = make(NATURAL)
    assert torch.equal(views.pixels(views.plain(images)), images)


def test_no_strength_is_the_plain_image(images: torch.Tensor) -> None:
    views = make(view_config("none"))
    assert torch.equal(views(images, torch.arange(16), seed=0, epoch=0, view=0), views.plain(images))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_preset_gives_views_in_range_for_one_and_three_channels(
    images: torch.Tensor, preset: str, channels: int
) -> None:
    views = make(view_config(preset), size=20, channels=channels)
    x = views(images[:, :channels], torch.arange(16), seed=0, epoch=0, view=0)
    assert x.shape == (16, channels, 20, 20)
    assert x.dtype == torch.float32
    for channel in range(channels):
        mean, std = views.mean[channel], views.std[channel]
        assert x[:, channel].min() >= -mean / std - 1e-4
        assert x[:, channel].max() <= (1 - mean) / std + 1e-4


@pytest.mark.parametrize("preset", ["digits", "natural"])
def test_a_view_depends_on_its_address_alone(images: torch.Tensor, preset: str) -> None:
    views = make(view_config(preset))
    samples = torch.arange(100, 116)
    whole = views(images, samples, seed=1, epoch=2, view=0)
    some = torch.tensor([11, 3, 7])
    torch.testing.assert_close(views(images[some], samples[some], seed=1, epoch=2, view=0), whole[some])
    assert torch.equal(views(images, samples, seed=1, epoch=2, view=0), whole)


@pytest.mark.parametrize("change", [{"seed": 2}, {"epoch": 3}, {"view": 1}, {"samples": torch.arange(16) + 1}])
def test_another_address_gives_another_view(images: torch.Tensor, change: dict) -> None:
    address = {"samples": torch.arange(16), "seed": 1, "epoch": 2, "view": 0}
    first = make(NATURAL)(images, **address)
    second = make(NATURAL)(images, **(address | change))
    assert ((first - second).flatten(1).abs().amax(1) > 1e-3).all()


def test_bending_is_drawn_for_each_view_and_leaves_the_other_draws_alone(images: torch.Tensor) -> None:
    def view_of(elastic: float, view: int = 0) -> torch.Tensor:
        config = dataclasses.replace(PRESETS["digits"], elastic=elastic)
        views = Views(config, size=28, mean=(0.1,), std=(0.3,))
        return views(images[:, :1], torch.arange(len(images)), seed=0, epoch=0, view=view)

    torch.testing.assert_close(view_of(1e-7), view_of(0.0), atol=1e-3, rtol=0)
    bent = view_of(0.05)
    assert not torch.allclose(bent, view_of(0.0), atol=0.1)
    assert not torch.allclose(bent, view_of(0.05, view=1), atol=0.1)
    assert torch.equal(bent, view_of(0.05))


def test_the_images_are_not_touched(images: torch.Tensor) -> None:
    before = images.clone()
    make(NATURAL)(images, torch.arange(16), seed=0, epoch=0, view=0)
    make(NATURAL).plain(images)
    assert torch.equal(images, before)


def test_mixed_precision_does_not_reach_the_views(images: torch.Tensor) -> None:
    views = make(NATURAL)
    expected = views(images, torch.arange(16), seed=0, epoch=0, view=0)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(views(images, torch.arange(16), seed=0, epoch=0, view=0), expected)


def test_chances_are_what_they_say() -> None:
    """Flip, grayscale and solarize happen as often as the configuration says, over many samples."""
    n = 4000
    image = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    image[:, 0, :, :2], image[:, 1, :, 2:] = 100, 30  # red on the left, dark green on the right
    images, samples = image.expand(n, -1, -1, -1), torch.arange(n)
    for name, chance, happened in (
        ("flip", 0.3, lambda x: x[:, 0, 0, 0] < x[:, 0, 0, 3]),
        ("grayscale", 0.2, lambda x: x[:, 0, 0, 0] == x[:, 1, 0, 0]),
        ("solarize", 0.1, lambda x: x[:, 0, 0, 0] < 100),
    ):
        views = Views(view_config("none", {name: chance}), size=4, mean=(0.0,) * 3, std=(1.0,) * 3)
        bright = images + 100 if name == "solarize" else images
        share = happened(views.pixels(views(bright, samples, seed=0, epoch=0, view=0))).float().mean().item()
        assert abs(share - chance) < 4 * (chance * (1 - chance) / n) ** 0.5, name


def test_of_takes_everything_from_the_data() -> None:
    data = load("mnist-small")
    views = Views.of(data)
    assert views.config == PRESETS["digits"]
    assert views.size == 28
    raw = data.fetch(torch.arange(len(data))).double() / 255
    assert abs(views.mean[0] - raw.mean()) < 1e-3
    assert abs(views.std[0] - raw.std()) < 1e-3


def test_normalisation_per_channel() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (50, 3, 8, 8), dtype=np.uint8)
    pixels[:, 1] //= 2
    mean, std = normalisation(ArrayData(torch.from_numpy(pixels)))
    np.testing.assert_allclose(mean, (pixels / 255).mean((0, 2, 3)), atol=1e-4)
    np.testing.assert_allclose(std, (pixels / 255).std((0, 2, 3)), atol=1e-4)


def test_a_constant_data_set_can_be_normalised() -> None:
    views = Views.of(ArrayData(torch.full((4, 1, 8, 8), 7, dtype=torch.uint8)))
    assert views.plain(torch.full((1, 1, 8, 8), 7, dtype=torch.uint8)).isfinite().all()


def test_changes_lie_on_top_of_a_preset() -> None:
    config = view_config("cifar10", {"blur": 0, "hue": 0.3})
    assert (config.blur, config.hue, config.flip) == (0, 0.3, PRESETS["small"].flip)
    assert ViewOptions().config("some folder", 65) == PRESETS["natural"]
    assert ViewOptions().config("some folder", 64) == PRESETS["small"]
    with pytest.raises(ValueError, match="there is no preset 'digts'; did you mean 'digits'"):
        view_config("digts")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"blurr": 1}, "no strength is called 'blurr'; did you mean 'blur'"),
        ({"flip": 1.5}, "flip must be at least 0 and at most 1, got 1.5"),
        ({"crop_area": 0}, "crop_area must be above 0 and at most 1, got 0"),
        ({"hue": "red"}, "hue: expected a number, got 'red'"),
    ],
)
def test_wrong_strengths_are_named(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        view_config("natural", changes)


@pytest.mark.parametrize(
    ("changes", "chance"),
    [({"hue": 0.3}, "jitter"), ({"brightness": 0.1, "flip": 1}, "jitter"), ({"blur_sigma": 3}, "blur")],
)
def test_a_strength_of_a_part_that_is_switched_off_is_refused(changes: dict, chance: str) -> None:
    name = next(iter(changes))
    with pytest.raises(ValueError, match=f"{name} is read only where {chance} is above 0"):
        view_config("digits", changes)
    assert getattr(view_config("digits", {**changes, chance: 0.5}), name) == changes[name]
    assert view_config("natural", {chance: 0}).hue == PRESETS["natural"].hue  # the preset's own is no mistake


def test_wrong_images_are_named(images: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"images: expected uint8 or float \(b, 3, s, s\), got torch.int32"):
        make(NATURAL)(images.int(), torch.arange(16), seed=0, epoch=0, view=0)
    with pytest.raises(ValueError, match="samples: expected 16 indices"):
        make(NATURAL)(images, torch.arange(15), seed=0, epoch=0, view=0)
    with pytest.raises(ValueError, match="mean, std"):
        Views(NATURAL, size=8, mean=(0.5,), std=(0.0,))


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_views_do_not_depend_on_the_default_type(channels: int) -> None:
    """Training in double precision makes float64 the default."""
    views = Views(view_config("natural"), size=8, mean=(0.5,) * channels, std=(0.25,) * channels)
    images, samples = torch.randint(0, 256, (6, channels, 12, 12), dtype=torch.uint8), torch.arange(6)
    expected = views(images, samples, seed=0, epoch=0, view=0)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(views(images, samples, seed=0, epoch=0, view=0), expected)
    finally:
        torch.set_default_dtype(torch.float32)
