"""Shifts do what their names say, and severity 0 does nothing."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageFilter
from torch import nn

from kvicreg.data import ArrayData, load
from kvicreg.evaluation import extract, fit_linear_probe, linear_probe
from kvicreg.evaluation.robustness import SHIFTS, robustness, shifted


@pytest.fixture(scope="module")
def photos() -> torch.Tensor:
    """Smooth colour images, 32 x 32."""
    rng = np.random.default_rng(0)
    small = [Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)) for _ in range(4)]
    big = [np.asarray(image.resize((32, 32), Image.Resampling.BICUBIC)) for image in small]
    return torch.from_numpy(np.stack(big)).permute(0, 3, 1, 2).contiguous()


@pytest.mark.parametrize("shift", SHIFTS)
def test_severity_zero_is_the_image_itself_and_more_severity_moves_it_further(photos, shift):
    samples = torch.arange(4)
    assert torch.equal(shifted(photos, shift, 0, samples), photos)
    distances = [float((shifted(photos, shift, s, samples).float() - photos).square().mean()) for s in range(6)]
    assert distances[1] > 0
    assert distances == sorted(distances)


@pytest.mark.parametrize("shift", SHIFTS)
def test_a_shift_depends_on_the_image_and_not_on_its_batch(photos, shift):
    whole = shifted(photos, shift, 3, torch.arange(4))
    parts = [shifted(photos[k : k + 1], shift, 3, torch.tensor([k])) for k in range(4)]
    assert torch.equal(whole, torch.cat(parts))


def test_rotation_is_pillows_inside_the_image(photos):
    turned = shifted(photos, "rotation", 2, torch.arange(4))
    middle = slice(10, 22)
    for ours, image in zip(turned, photos, strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        candidates = [np.asarray(picture.rotate(angle, Image.Resampling.BILINEAR)) for angle in (-20, 20)]
        errors = [
            np.abs(ours.permute(1, 2, 0).numpy()[middle, middle].astype(int) - c[middle, middle]).max()
            for c in candidates
        ]
        assert min(errors) <= 2


def test_blur_is_pillows_gaussian(photos):
    blurred = shifted(photos, "blur", 4, torch.arange(4))
    picture = Image.fromarray(photos[0].permute(1, 2, 0).numpy()).filter(ImageFilter.GaussianBlur(0.06 * 32))
    difference = np.abs(np.asarray(picture).astype(int) - blurred[0].permute(1, 2, 0).numpy())
    assert difference[8:-8, 8:-8].max() <= 4


def test_noise_has_the_stated_deviation_and_contrast_keeps_the_stated_share(photos):
    grey = torch.full((64, 1, 32, 32), 128, dtype=torch.uint8)
    noise = shifted(grey, "noise", 2, torch.arange(64)).float() - 128
    assert float(noise.std()) == pytest.approx(0.1 * 255, rel=0.03)
    lower = shifted(photos, "contrast", 3, torch.arange(4)).float()
    assert float(lower.std() / photos.float().std()) < 0.75
    assert float(lower[0].std() / photos[0].float().std()) == pytest.approx(0.4, rel=0.02)


@pytest.mark.parametrize("severity", [1, 3, 5])
def test_contrast_is_pillows_and_keeps_the_brightness(photos, severity):
    amount = SHIFTS["contrast"][1][severity]
    grey = photos[:, :1]
    lower = shifted(grey, "contrast", severity, torch.arange(4))
    for ours, image in zip(lower, grey, strict=True):
        theirs = ImageEnhance.Contrast(Image.fromarray(image[0].numpy())).enhance(amount)
        assert np.abs(ours[0].numpy().astype(int) - np.asarray(theirs)).max() <= 1
    means = shifted(photos, "contrast", severity, torch.arange(4)).float().mean((1, 2, 3))
    torch.testing.assert_close(means, photos.float().mean((1, 2, 3)), atol=0.5, rtol=0)


def test_accuracy_at_severity_zero_is_the_clean_accuracy_of_the_probe():
    train, test = load("digits"), load("digits", "test")
    flat = nn.Flatten()
    flat.preprocess = lambda x: x.float() / 255
    train_x, test_x = extract(flat, train), extract(flat, test)
    probe = fit_linear_probe(train_x, train.labels, C=0.1)
    curves = robustness(lambda alter: extract(flat, test, alter=alter), probe, test.labels)
    clean = linear_probe(train_x, train.labels, test_x, test.labels, C=0.1).accuracy
    assert [curve.shift for curve in curves] == list(SHIFTS)
    for curve in curves:
        assert curve.accuracy[0].value == clean
        assert curve.accuracy[5].value < clean


def test_unknown_shifts_and_severities_are_named():
    images = ArrayData(torch.zeros(1, 1, 8, 8, dtype=torch.uint8)).images
    with pytest.raises(ValueError, match="rotation, contrast"):
        shifted(images, "fog", 1, torch.arange(1))
    with pytest.raises(ValueError, match="0 to 5, got 6"):
        shifted(images, "blur", 6, torch.arange(1))
