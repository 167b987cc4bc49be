"""Pixels of any depth and number of channels: nothing is cut unless it is told."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.data import FileData, Intensity, Views, batches, load, view_config
from kvicreg.data.commands import show_data
from kvicreg.data.intensity import intensity_rule
from kvicreg.data.pixels import raw_pixels, read_header

tifffile = pytest.importorskip("tifffile", reason="pip install 'kvicreg[sources]'")

KINDS = {  # pixels (16, 16, c), as the file is to hold them
    "12 bits in 16": lambda ramp: (ramp * 4095).astype(np.uint16)[..., None],
    "float in [0, 1]": lambda ramp: ramp.astype(np.float32)[..., None],
    "double around 0": lambda ramp: (ramp * 6 - 3)[..., None],
    "half": lambda ramp: ramp.astype(np.float16)[..., None],
    "signed": lambda ramp: (ramp * 4000 - 1000).astype(np.int16)[..., None],
    "16-bit colour": lambda ramp: (np.stack((ramp, 1 - ramp, ramp), -1) * 4095).astype(np.uint16),
    "2 channels": lambda ramp: (np.stack((ramp, 1 - ramp), -1) * 255).astype(np.uint8),
    "5 channels of 16 bits": lambda ramp: (ramp[..., None] * [4095, 100, 800, 65535, 9]).astype(np.uint16),
    "32 channels": lambda ramp: (ramp[..., None] * np.linspace(1, 255, 32)).astype(np.uint8),
}


@pytest.fixture
def ramp() -> np.ndarray:
    return np.linspace(0, 1, 256).reshape(16, 16)


def write_tiff(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    form = {"photometric": "rgb"} if pixels.shape[-1] == 3 else {"photometric": "minisblack", "planarconfig": "contig"}
    tifffile.imwrite(path, pixels[..., 0] if pixels.shape[-1] == 1 else pixels, **form)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_every_level_is_kept_and_views_are_finite(tmp_path: Path, ramp: np.ndarray, kind: str) -> None:
    pixels = KINDS[kind](ramp)
    for k in range(4):
        write_tiff(tmp_path / f"{k}.tif", pixels)
    data = load(tmp_path)
    images = data.fetch(torch.arange(4))
    channels = pixels.shape[-1]
    assert images.shape == (4, channels, 16, 16)
    for channel in range(channels):
        levels = len(np.unique(pixels[..., channel]))
        assert len(images[0, channel].unique()) == levels
    if pixels.dtype != np.uint8:
        assert images.dtype == torch.float32
        assert (float(images.min()), float(images.max())) == (0, 255)
        assert data.intensity is not None
        assert any("more than 8 bits: intensity" in note for note in data.notes)
    views = Views.of(data, view_config("natural"))
    before = images.clone()
    x = views(images, torch.arange(4), seed=0, epoch=0, view=0)
    assert x.shape == images.shape
    assert x.isfinite().all()
    assert torch.equal(images, before)
    assert views.plain(images).isfinite().all()
    assert views.skipped == (() if channels == 3 else ("saturation", "hue", "grayscale"))


@pytest.mark.parametrize("kind", ["12 bits in 16", "5 channels of 16 bits"])
def test_workers_and_resizing_agree(tmp_path: Path, ramp: np.ndarray, kind: str) -> None:
    for k in range(6):
        write_tiff(tmp_path / f"{k}.tif", KINDS[kind](ramp))
    data = load(tmp_path, image_size=8)
    here, there = (list(batches(data, 3, seed=0, epoch=0, workers=workers)) for workers in (0, 2))
    assert all(torch.equal(a[0], b[0]) for a, b in zip(here, there, strict=True))
    assert here[0][0].shape[2:] == (12, 12)  # half above the size: what views are cropped from


def test_grey_of_16_bits_has_one_channel_and_may_have_three(tmp_path: Path, ramp: np.ndarray) -> None:
    write_tiff(tmp_path / "a.tif", KINDS["12 bits in 16"](ramp))
    assert load(tmp_path).shape == (1, 16, 16)
    images = load(tmp_path, channels=3).fetch(torch.tensor([0]))
    assert torch.equal(images[:, 0], images[:, 2])
    assert len(images.unique()) == 256


def deep_png(path: Path, pixels: np.ndarray) -> Path:
    """A PNG of 16 bits with 3 (RGB) or 4 channels (RGBA), which Pillow can't write."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 16, {3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    return path


def test_colour_png_of_16_bits_keeps_both_bytes(tmp_path: Path, ramp: np.ndarray) -> None:
    pixels = KINDS["16-bit colour"](ramp)
    deep_png(tmp_path / "a.png", pixels)
    images = load(tmp_path).fetch(torch.tensor([0]))
    np.testing.assert_allclose(images[0].permute(1, 2, 0).numpy(), pixels / 4095 * 255, atol=1e-3)


def test_alpha_is_composited_over_white_and_told(tmp_path: Path) -> None:
    Image.new("RGBA", (8, 8), (200, 100, 0, 0)).save(tmp_path / "clear.png")
    Image.new("RGBA", (8, 8), (200, 100, 0, 255)).save(tmp_path / "full.png")
    palette = Image.new("P", (8, 8), 3)
    palette.putpalette([value for k in range(256) for value in (k, 0, 0)])
    palette.save(tmp_path / "palette.png", transparency=3)
    data = load(tmp_path)
    colours = data.fetch(torch.arange(3))[:, :, 4, 4].tolist()
    assert colours == [[255, 255, 255], [200, 100, 0], [255, 255, 255]]
    assert "3 of the 3 images looked at have an alpha channel: they are composited over white" in data.notes
    deep = np.zeros((8, 8, 4), np.uint16)
    deep_png(tmp_path / "clear.png", deep)
    assert load(tmp_path, intensity="0:65535").fetch(torch.tensor([0])).min() == 255
    assert load(tmp_path, channels=4).fetch(torch.tensor([0]))[0, 3].max() == 0  # four channels: alpha is one of them


def test_near_infrared_is_no_alpha(tmp_path: Path) -> None:
    pixels = np.full((8, 8, 4), 7, np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extrasamples=["unspecified"])
    data = load(tmp_path)
    assert data.shape == (4, 8, 8)
    assert (data.fetch(torch.tensor([0])) == 7).all()


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        pages = np.arange(5, dtype=np.uint16)[:, None, None] * np.ones((1, 8, 8), np.uint16) * 1000
        tifffile.imwrite(tmp_path / label / "s.tif", pages, photometric="minisblack")
    return tmp_path


def test_of_several_pages_the_first_is_read_and_told(stacks: Path) -> None:
    data = load(stacks)
    assert data.shape == (1, 8, 8)
    assert any("2 of the 2 images looked at have several pages: only the first is read" in note for note in data.notes)


def test_pages_as_channels(stacks: Path) -> None:
    data = load(stacks, pages="channels", intensity="0:4000")
    assert data.shape == (5, 8, 8)
    assert data.fetch(torch.tensor([1]))[0, :, 0, 0].tolist() == [0, 63.75, 127.5, 191.25, 255]


def test_pages_as_images(stacks: Path) -> None:
    data = load(stacks, pages="images")
    assert (len(data), data.shape) == (10, (1, 8, 8))
    assert data.labels is not None
    assert data.labels.tolist() == [0] * 5 + [1] * 5
    assert data.fetch(torch.tensor([9, 5]))[:, 0, 0, 0].tolist() == [255, 0]
    assert data.subset([7]).fetch(torch.tensor([0]))[0, 0, 0, 0] == 127.5
    assert data.paths is not None
    assert data.paths[7] == stacks / "b" / "s.tif" / "2"


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_file_with_nan_is_refused_by_name(tmp_path: Path, ramp: np.ndarray, bad: float) -> None:
    for k in range(5):
        pixels = KINDS["float in [0, 1]"](ramp).copy()
        if k == 2:
            pixels[3, 3] = bad
        write_tiff(tmp_path / f"{k}.tif", pixels)
    data = load(tmp_path)
    assert isinstance(data, FileData)
    assert data.fetch(torch.arange(5)).isfinite().all()
    assert data.faults == {tmp_path / "2.tif": "it has values that are not finite (NaN or infinity)"}
    assert data.intensity == Intensity((0.0,), (1.0,))


def test_a_rare_deep_image_is_not_cut_in_silence(tmp_path: Path) -> None:
    for k in range(200):
        Image.new("L", (8, 8), k).save(tmp_path / f"{k:03}.png")
    Image.fromarray(np.full((8, 8), 4095, np.uint16)).save(tmp_path / "001.png")
    data = load(tmp_path)
    assert isinstance(data, FileData)
    data.fetch(torch.arange(10))
    assert data.unreadable == [tmp_path / "001.png"]
    assert "expected 8 bits as in the first images" in data.faults[tmp_path / "001.png"]


def test_images_of_8_bits_beside_deeper_ones_stay_as_they_are(tmp_path: Path) -> None:
    Image.new("L", (8, 8), 100).save(tmp_path / "a.png")
    Image.fromarray(np.linspace(0, 1000, 64).astype(np.uint16).reshape(8, 8)).save(tmp_path / "b.png")
    images = load(tmp_path, channels=1).fetch(torch.arange(2))
    assert (float(images[0].min()), float(images[0].max()), float(images[1].max())) == (100, 100, 255)


def test_percentiles_leave_out_a_few_bright_pixels(tmp_path: Path, rng: np.random.Generator) -> None:
    for k in range(4):
        pixels = rng.integers(0, 1000, (64, 64), dtype=np.uint16)
        pixels[0, 0] = 60000
        write_tiff(tmp_path / f"{k}.tif", pixels[..., None])
    assert load(tmp_path).intensity == Intensity((0.0,), (60000.0,))
    cut = load(tmp_path, intensity="1%").intensity
    assert cut is not None
    assert (cut.low[0], cut.high[0]) == pytest.approx((10, 990), abs=5)
    assert load(tmp_path, intensity=cut.text).intensity == Intensity(
        *[tuple(float(f"{v:.9g}") for v in e) for e in (cut.low, cut.high)]
    )


def test_splits_share_the_range_of_training(tmp_path: Path) -> None:
    for split, top in (("train", 4095), ("test", 1000)):
        pixels = np.linspace(0, top, 256).astype(np.uint16).reshape(16, 16, 1)
        write_tiff(tmp_path / split / "a" / "x.tif", pixels)
    test = load(tmp_path, "test")
    assert test.intensity == Intensity((0.0,), (4095.0,))
    assert float(test.fetch(torch.tensor([0])).max()) == pytest.approx(1000 / 4095 * 255)


@pytest.mark.parametrize("text", ["", "max", "60%", "-1%", "5:1", "1:2:3", "nan:1", "1:2,3"])
def test_a_wrong_range_is_explained(text: str) -> None:
    with pytest.raises(ValueError, match="intensity: expected"):
        intensity_rule(text)


def test_a_range_survives_being_written() -> None:
    intensity = Intensity((0.0, -1.5), (4095.0, 0.1))
    assert intensity_rule(intensity.text) == intensity


def test_the_wrong_number_of_channels_is_told(tmp_path: Path, ramp: np.ndarray) -> None:
    write_tiff(tmp_path / "a.tif", KINDS["5 channels of 16 bits"](ramp))
    with pytest.raises(ValueError, match=r"a\.tif \(it has 5 channels, expected 3; choose with channels"):
        load(tmp_path, channels=3).fetch(torch.tensor([0]))


def test_the_header_tells_what_a_file_holds(tmp_path: Path, ramp: np.ndarray) -> None:
    header = read_header(write_tiff(tmp_path / "a.tif", KINDS["5 channels of 16 bits"](ramp)))
    assert header == (16, 5, True, False, 1)


def test_a_contact_sheet_of_many_channels(tmp_path: Path, ramp: np.ndarray) -> None:
    write_tiff(tmp_path / "in" / "a.tif", KINDS["5 channels of 16 bits"](ramp))
    words = show_data(str(tmp_path / "in"), tmp_path / "sheet.png", images=1)
    assert "views without saturation, hue, grayscale" in words
    assert np.asarray(Image.open(tmp_path / "sheet.png")).std() > 20


def test_contrast_of_many_channels_is_around_the_mean_of_each() -> None:
    images = torch.rand(4, 5, 8, 8) * 100 + 50
    config = view_config("none", {"jitter": 1.0, "contrast": 0.5})
    views = Views(config, size=8, mean=(0.5,) * 5, std=(0.25,) * 5)
    pixels = (views(images, torch.arange(4), seed=0, epoch=0, view=0) * 0.25 + 0.5) * 255
    torch.testing.assert_close(pixels.mean((2, 3)), images.mean((2, 3)), atol=0.05, rtol=0)
    ratio = pixels.std((2, 3)) / images.std((2, 3))
    assert (ratio - ratio[:, :1]).abs().max() < 1e-3


@pytest.mark.parametrize(("kind", "composited"), [("unassalpha", True), ("assocalpha", True), ("unspecified", False)])
def test_the_alpha_of_a_deep_tiff_is_laid_over_white(kind, composited, tmp_path):
    pixels = np.full((4, 4, 4), 0.5, np.float32)
    pixels[:2, :, 3] = 0.0
    tifffile.imwrite(tmp_path / "a.tif", pixels, photometric="rgb", extrasamples=[kind])
    read = raw_pixels(tmp_path / "a.tif")
    assert read.shape == (4, 4, 3 if composited else 4)
    if composited:
        np.testing.assert_allclose(read[0], 1.0)
        np.testing.assert_allclose(read[3], 0.75)
