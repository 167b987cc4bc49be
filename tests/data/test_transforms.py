"""Each part of a view equals an independent implementation (Pillow, scipy, colorsys) with the same parameters."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from scipy.ndimage import gaussian_filter

from kvicreg.data import transforms
from kvicreg.data.transforms import LUMA, affine_maps, blur, colour_matrices, compose, crop_boxes, crop_maps, sample


def batch(pixels: np.ndarray) -> torch.Tensor:
    """One picture (h, w, 3) as float (1, 3, h, w) in [0, 255]."""
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float()


def picture(x: torch.Tensor) -> np.ndarray:
    return x[0].permute(1, 2, 0).numpy()


def one(value: float) -> torch.Tensor:
    return torch.tensor([float(value)])


def per_channel(pixels: np.ndarray, change) -> np.ndarray:
    """`change` of each channel as a Pillow image of floats."""
    channels = [np.asarray(change(Image.fromarray(pixels[..., k].astype(np.float32)))) for k in range(3)]
    return np.stack(channels, -1)


@pytest.mark.parametrize("box", [(0, 0, 24, 24), (3.3, 5.1, 17.2, 20.9), (0, 0, 11, 7), (12.5, 9, 24, 24)])
def test_crop_equals_pillow(photo: np.ndarray, box: tuple[float, float, float, float]) -> None:
    left, top, right, bottom = box
    size = 32
    boxes = torch.tensor([[(left + right) / 24 - 1, (top + bottom) / 24 - 1, (right - left) / 24, (bottom - top) / 24]])
    ours = sample(batch(photo), crop_maps(boxes, torch.tensor([False])), size, "border")
    theirs = per_channel(photo, lambda image: image.resize((size, size), Image.Resampling.BILINEAR, box=box))
    np.testing.assert_allclose(picture(ours), theirs, atol=0.02)


def test_flip_equals_pillow(photo: np.ndarray) -> None:
    whole = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
    ours = sample(batch(photo), crop_maps(whole, torch.tensor([True])), 24, "border")
    np.testing.assert_allclose(picture(ours), np.asarray(ImageOps.mirror(Image.fromarray(photo))), atol=0.01)


@pytest.mark.parametrize(
    ("angle", "shear", "scale", "shift"),
    [(30, 0, 1, (0, 0)), (0, 20, 1, (0, 0)), (0, 0, 1.3, (0, 0)), (0, 0, 1, (0.2, -0.1)), (-25, 10, 0.8, (0.1, 0.05))],
)
def test_affine_equals_pillow(
    photo: np.ndarray, angle: float, shear: float, scale: float, shift: tuple[float, float]
) -> None:
    pixels = photo.copy()
    pixels[:2] = pixels[-2:] = pixels[:, :2] = pixels[:, -2:] = 0  # both are black beyond a black border
    a, b = np.radians(angle), np.radians(shear)
    forward = np.eye(3)
    for matrix in (  # the last one acts last
        np.array([[1, 0, -12], [0, 1, -12], [0, 0, 1]]),
        np.diag([scale, scale, 1]),
        np.array([[1, np.tan(b), 0], [0, 1, 0], [0, 0, 1]]),
        np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]]),
        np.array([[1, 0, 12 + 24 * shift[0]], [0, 1, 12 + 24 * shift[1]], [0, 0, 1]]),
    ):
        forward = matrix @ forward
    back = np.linalg.inv(forward)[:2].ravel()
    theirs = per_channel(
        pixels, lambda im: im.transform((24, 24), Image.Transform.AFFINE, tuple(back), Image.Resampling.BILINEAR)
    )
    maps = affine_maps(one(a), one(b), one(scale), one(shift[0]), one(shift[1]))
    np.testing.assert_allclose(picture(sample(batch(pixels), maps, 24, "zeros")), theirs, atol=0.05)


def test_a_bend_that_is_the_same_everywhere_is_a_shift_and_others_are_read_where_they_are(photo: np.ndarray) -> None:
    still = affine_maps(one(0), one(0), one(1), one(0), one(0))
    bend = torch.tensor([0.25, -0.5])[None, :, None, None].expand(1, 2, 4, 4)
    moved = affine_maps(one(0), one(0), one(1), one(-0.125), one(0.25))  # reading to the right moves to the left
    shifted = sample(batch(photo), moved, 24, "zeros")
    torch.testing.assert_close(sample(batch(photo), still, 24, "zeros", bend), shifted, atol=0.01, rtol=0)
    half = torch.where(torch.arange(4) < 2, bend, torch.zeros(()))  # the left half only
    bent = sample(batch(photo), still, 24, "zeros", half)
    torch.testing.assert_close(bent[..., :3], shifted[..., :3], atol=0.01, rtol=0)
    torch.testing.assert_close(bent[..., 21:], batch(photo).float()[..., 21:], atol=0.01, rtol=0)


def test_composed_maps_act_one_after_the_other() -> None:
    generator = torch.Generator().manual_seed(0)
    outer, inner = torch.randn(2, 4, 2, 3, generator=generator)
    point = torch.tensor([0.3, -0.7, 1.0])
    middle = torch.cat((inner @ point, torch.ones(4, 1)), 1)
    torch.testing.assert_close(compose(outer, inner) @ point, (outer @ middle[:, :, None])[:, :, 0])


def test_crops_lie_inside_and_have_the_area_asked() -> None:
    numbers = torch.rand(5000, 4, generator=torch.Generator().manual_seed(0))
    area = 0.08 + 0.92 * numbers[:, 0]
    boxes = crop_boxes(area, *(2 * numbers[:, 1:] - 1).unbind(1), max_ratio=4 / 3)
    x, y, half_w, half_h = boxes.unbind(1)
    assert (x.abs() + half_w).max() <= 1 + 1e-6
    assert (y.abs() + half_h).max() <= 1 + 1e-6
    torch.testing.assert_close(half_w * half_h, area)
    ratio = half_w / half_h
    assert ratio.max() <= 4 / 3 + 1e-5
    assert ratio.min() >= 3 / 4 - 1e-5
    assert abs(ratio.log().mean()) < 0.01


def coloured(pixels: np.ndarray, brightness=1.0, contrast=1.0, saturation=1.0, hue=0.0) -> np.ndarray:
    x = batch(pixels)
    matrices, k = colour_matrices(one(brightness), one(contrast), one(saturation), one(hue))
    luma = x.mean((2, 3)) @ torch.tensor(LUMA)
    changed = matrices @ x.flatten(2) + (k * luma)[:, None, None]
    return picture(changed.view_as(x).clamp(0, 255))


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.7])
@pytest.mark.parametrize(
    ("name", "reference"),
    [("brightness", ImageEnhance.Brightness), ("contrast", ImageEnhance.Contrast), ("saturation", ImageEnhance.Color)],
)
def test_colour_factors_equal_pillow(photo: np.ndarray, name: str, reference: type, factor: float) -> None:
    theirs = np.asarray(reference(Image.fromarray(photo)).enhance(factor), dtype=np.float32)
    np.testing.assert_allclose(coloured(photo, **{name: factor}), theirs, atol=2)  # Pillow rounds on the way


def test_no_saturation_is_pillow_s_grey(photo: np.ndarray) -> None:
    grey = np.asarray(Image.fromarray(photo).convert("L"), dtype=np.float32)
    np.testing.assert_allclose(coloured(photo, saturation=0), np.repeat(grey[..., None], 3, 2), atol=1)


@pytest.mark.parametrize("hue", [-0.1, 0.05, 0.25])
def test_hue_turns_the_chroma_of_yiq(photo: np.ndarray, hue: float) -> None:
    soft = (photo * 0.3 + 90).astype(np.uint8)  # far from 0 and 255: nothing is clamped
    expected = np.empty(soft.shape)
    for place in np.ndindex(soft.shape[:2]):
        y, i, q = colorsys.rgb_to_yiq(*(soft[place] / 255))
        chroma = complex(i, q) * np.exp(-2j * np.pi * hue)
        expected[place] = 255 * np.array(colorsys.yiq_to_rgb(y, chroma.real, chroma.imag))
    np.testing.assert_allclose(coloured(soft, hue=hue), expected, atol=4)  # colorsys rounds its coefficients


def test_hue_keeps_luma_and_a_whole_turn_changes_nothing(photo: np.ndarray) -> None:
    soft = (photo * 0.3 + 90).astype(np.uint8)
    np.testing.assert_allclose(coloured(soft, hue=0.3) @ LUMA, soft @ np.array(LUMA), atol=0.01)
    np.testing.assert_allclose(coloured(soft, hue=1.0), soft, atol=0.01)


def test_positive_hue_goes_from_red_towards_green() -> None:
    red = np.full((2, 2, 3), (140, 110, 110), np.uint8)
    turned = coloured(red, hue=0.25)[0, 0]
    assert turned[1] > turned[0]
    assert turned[1] > turned[2]


def test_the_four_colour_operations_commute(photo: np.ndarray) -> None:
    """On unclamped values, one matrix equals any order of the single steps."""
    soft = photo * 0.3 + 90.0
    steps = [{"brightness": 0.9}, {"contrast": 1.2}, {"saturation": 0.5}, {"hue": 0.1}]
    expected = coloured(soft, 0.9, 1.2, 0.5, 0.1)
    for order in ((0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)):
        result = soft
        for step in order:
            result = coloured(result, **steps[step])
        np.testing.assert_allclose(result, expected, atol=0.01)


@pytest.mark.parametrize("sigma", [0.1, 0.7, 2.0, 5.0])
def test_blur_equals_scipy_normalised_at_the_border(photo: np.ndarray, sigma: float) -> None:
    def smooth(image: np.ndarray) -> np.ndarray:
        return gaussian_filter(image, (sigma, sigma, 0), mode="constant", truncate=12)

    expected = smooth(photo.astype(np.float64)) / smooth(np.ones(photo.shape))
    np.testing.assert_allclose(picture(blur(batch(photo), one(sigma))), expected, atol=0.01)


def test_each_sample_is_blurred_by_its_own_sigma(photo: np.ndarray) -> None:
    x = batch(photo).repeat(3, 1, 1, 1)
    together = blur(x, torch.tensor([0.1, 1.0, 3.0]))
    for k, sigma in enumerate((0.1, 1.0, 3.0)):
        torch.testing.assert_close(together[k], blur(x[:1], one(sigma))[0], atol=1e-3, rtol=1e-5)


def test_solarize_equals_pillow(photo: np.ndarray) -> None:
    theirs = np.asarray(ImageOps.solarize(Image.fromarray(photo), 128))
    np.testing.assert_allclose(
        picture(transforms.solarize(batch(photo), torch.tensor(127.5))), theirs.astype(np.float32), atol=0.01
    )


@pytest.mark.parametrize("chosen", [[True, False, True], [False] * 3, [True] * 3])
def test_only_the_chosen_samples_change(chosen: list[bool]) -> None:
    x = torch.ones(3, 1, 2, 2)
    factors = torch.tensor([2.0, 3.0, 4.0])
    result = transforms.on_chosen(x, torch.tensor(chosen), lambda rows, f: rows * f[:, None, None, None], factors)
    expected = torch.where(torch.tensor(chosen), factors, 1.0)
    assert torch.equal(result[:, 0, 0, 0], expected)


def test_many_images_are_read_in_parts(monkeypatch):
    images, maps = torch.randint(0, 256, (5, 3, 8, 8), dtype=torch.uint8), torch.eye(2, 3).repeat(5, 1, 1)
    whole = transforms.sample(images, maps, 6, "zeros")
    monkeypatch.setattr(transforms, "_AT_ONCE", 2 * images[0].numel())
    assert transforms.sample(images, maps, 6, "zeros").equal(whole)


def test_the_basis_of_colours_keeps_luma_and_turns_chroma() -> None:
    luma, chroma, turn = (torch.tensor(part, dtype=torch.float64) for part in transforms._colour_basis())
    assert luma.tolist() == [pytest.approx(LUMA)] * 3  # grey of the luma weights
    torch.testing.assert_close(luma + chroma, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(turn @ turn, -chroma)  # two quarters of the circle are half of it
    torch.testing.assert_close(turn @ torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    red = turn @ torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    assert red[1] > max(red[0], red[2])  # by way of yellow to green
    assert all(len(row) == 3 for part in transforms._BASIS for row in part)
