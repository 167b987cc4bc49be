"""The values of an image file as they are stored: layouts of TIFF, alpha, limits, and headers of every kind."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.data.intensity import Intensity
from kvicreg.data.pixels import (
    MAX_CHANNELS,
    MAX_PIXELS,
    _composited,
    decode,
    decode_deep,
    match_channels,
    open_image,
    raw_pixels,
    read_header,
    squared,
)
from kvicreg.data.tiff import has_tiff_magic, open_tiff, tiff_page

tifffile = pytest.importorskip("tifffile", reason="pip install 'kvicreg[sources]'")


def tiff(pixels: np.ndarray, **options: object) -> bytes:
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, **({"photometric": "minisblack"} | options))
    return file.getvalue()


def png(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("channels", [2, 5])
@pytest.mark.parametrize("layout", ["contig", "separate"])
def test_channels_of_a_tiff_beside_or_behind_each_other(rng, layout: str, channels: int) -> None:
    pixels = rng.integers(0, 60000, (6, 7, channels), dtype=np.uint16)
    stored = pixels if layout == "contig" else np.moveaxis(pixels, -1, 0)
    content = tiff(stored, planarconfig=layout)
    assert np.array_equal(raw_pixels(content), pixels)
    assert read_header(content) == (6, channels, True, False, 1)
    with open_tiff(content) as file:
        read, alpha = tiff_page(file, 0, limit=6 * 7 * channels)
        assert np.array_equal(read, pixels)
        assert not alpha
        with pytest.raises(
            ValueError, match=f"^a page has {42 * channels} values, more than {42 * channels - 1} pixels have$"
        ):
            tiff_page(file, 0, limit=42 * channels - 1)
        with pytest.raises(ValueError, match="^it has 1 pages, expected one numbered 1$"):
            tiff_page(file, 1, limit=1000)


def test_a_volume_in_a_tiff_is_refused() -> None:
    with (
        open_tiff(tiff(np.zeros((16, 16, 16), np.uint16), volumetric=True, tile=(16, 16, 16))) as file,
        pytest.raises(ValueError, match="^it holds a volume, expected flat pages$"),
    ):
        tiff_page(file, 0, limit=10**6)


@pytest.mark.parametrize("start", [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"\x89PNG"])
def test_how_a_tiff_begins(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "a").write_bytes(start + b"more")
    assert has_tiff_magic(tmp_path / "a") == has_tiff_magic(start + b"more") == (start != b"\x89PNG")


def test_pages_are_channels_or_one_is_chosen(rng) -> None:
    pages = rng.integers(0, 60000, (3, 4, 5), dtype=np.uint16)
    content = tiff(pages)
    assert np.array_equal(raw_pixels(content, None), np.moveaxis(pages, 0, -1))
    assert np.array_equal(raw_pixels(content, 2), pages[2, ..., None])
    assert np.array_equal(raw_pixels(content), pages[0, ..., None])
    assert read_header(content).pages == 3
    two = tiff(np.zeros((17, 4, 4, 2), np.uint16), planarconfig="contig")
    with pytest.raises(ValueError, match="^it has 34 channels, more than 32$"):
        raw_pixels(two, None)
    many = tiff(np.zeros((MAX_CHANNELS + 1, 4, 4), np.uint16))
    with pytest.raises(ValueError, match="^it has 33 pages, more than the 32 channels that an image may have$"):
        raw_pixels(many, None)
    assert raw_pixels(tiff(np.zeros((MAX_CHANNELS, 4, 4), np.uint16)), None).shape == (4, 4, 32)


@pytest.mark.parametrize(
    ("mode", "header"),
    [
        ("L", (6, 1, False, False, 1)), ("RGB", (6, 3, False, False, 1)), ("RGBA", (6, 3, False, True, 1)),
        ("LA", (6, 1, False, True, 1)), ("1", (6, 1, False, False, 1)), ("P", (6, 3, False, False, 1)),
        ("I;16", (6, 1, True, False, 1)),
    ],
)  # fmt: skip
def test_what_a_header_tells_without_its_pixels(mode: str, header: tuple) -> None:
    assert read_header(png(Image.new(mode, (9, 6)))) == header


def test_frames_of_a_gif_are_no_pages_and_alpha_of_a_tiff_is_no_channel() -> None:
    frames = [Image.new("L", (6, 6), k) for k in (0, 200)]
    assert read_header(png(frames[0], "GIF", save_all=True, append_images=frames[1:])).pages == 1
    deep = np.zeros((6, 8, 4), np.uint16)
    assert read_header(tiff(deep, photometric="rgb", extrasamples=["unassalpha"])) == (6, 3, True, True, 1)
    assert read_header(tiff(deep, photometric="rgb", extrasamples=["unspecified"])) == (6, 4, True, False, 1)


@pytest.mark.parametrize(("dtype", "white"), [(np.uint8, 255), (np.uint16, 65535), (np.float32, 1.0)])
def test_values_over_white(dtype: type, white: float) -> None:
    pixels = np.array([[[0, 0], [0, white], [white, 0], [white * 0.2, white * 0.4]]]).astype(dtype)
    shown = _composited(pixels)
    assert shown.dtype == dtype
    last = float(pixels[0, 3, 0]) * float(pixels[0, 3, 1]) / white + white - float(pixels[0, 3, 1])
    np.testing.assert_allclose(shown[0, :, 0], [white, 0, white, last], atol=0.51 if white > 1 else 1e-6)


def test_channels_are_matched() -> None:
    colour = np.array([[[10, 20, 30]]], np.uint8)
    assert match_channels(colour, 3) is colour
    assert match_channels(colour, 1).tolist() == [[[round(0.299 * 10 + 0.587 * 20 + 0.114 * 30)]]]
    assert match_channels(colour.astype(np.float32), 1)[0, 0, 0] == pytest.approx(18.15)
    assert match_channels(colour[..., :1], 4).tolist() == [[[10] * 4]]
    for channels in (2, 4):
        message = f"it has 3 channels, expected {channels}; choose with channels (--channels 3)"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            match_channels(colour, channels)


@pytest.mark.parametrize(
    ("fit", "rows"),
    [
        ("crop", [[88, 100, 100, 88]] * 4),
        ("letterbox", [[0] * 4, [14, 88, 88, 14], [14, 88, 88, 14], [0] * 4]),
        ("stretch", [[14, 88, 88, 14]] * 4),
    ],
)
def test_how_a_wide_image_becomes_a_square(fit: str, rows: list[list[int]]) -> None:
    """A bright middle, smoothed by a triangle twice as wide as a new pixel."""
    wide = np.zeros((8, 16), np.uint8)
    wide[:, 4:12] = 100
    assert np.asarray(squared(Image.fromarray(wide), 4, fit)).tolist() == rows


def test_without_a_range_sixteen_bits_become_eight_and_floats_are_refused() -> None:
    values = np.array([[0, 257 * 3], [65535, 257 * 100 + 200]], np.uint16)
    content = png(Image.fromarray(values))
    assert decode(content, 1, 2).tolist() == [[[0, 3], [255, 101]]]
    ranged = decode(content, 1, 2, Intensity((0.0,), (771.0,)))
    assert (ranged.dtype, ranged[0, 0].tolist()) == (torch.float32, pytest.approx([0, 255]))
    message = "^it has values of type {}, expected 8 bits as in the first images$"
    with pytest.raises(ValueError, match=message.format("float32")):
        decode(tiff(np.zeros((2, 2), np.float32)), 1, 2)
    with pytest.raises(ValueError, match=message.format("uint16")):
        decode_deep(content, 1, 2, None)


def test_eight_bits_with_alpha_as_a_fourth_channel_or_over_white() -> None:
    content = png(Image.new("RGBA", (4, 4), (200, 100, 0, 51)))
    assert decode(content, 4, 4)[:, 0, 0].tolist() == [200, 100, 0, 51]
    assert decode(content, 3, 4)[:, 0, 0].tolist() == raw_pixels(content)[0, 0].tolist() == [244, 224, 204]
    assert raw_pixels(content, keep_alpha=True).shape == (4, 4, 4)


def test_a_picture_of_one_bit_is_black_and_white() -> None:
    bits = np.array([[True, False], [False, True]])
    expected = [[[255], [0]], [[0], [255]]]
    assert raw_pixels(png(Image.fromarray(bits))).tolist() == expected
    assert raw_pixels(tiff(bits)).tolist() == expected


def test_an_image_of_too_many_pixels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = png(Image.new("L", (8, 4)))
    monkeypatch.setattr("kvicreg.data.pixels.MAX_PIXELS", 32)
    assert decode(content, 1, 4).shape == (1, 4, 4)
    monkeypatch.setattr("kvicreg.data.pixels.MAX_PIXELS", 31)
    for read in (lambda: decode(content, 1, 4), lambda: raw_pixels(content)):
        with pytest.raises(ValueError, match="^it has 8x4 pixels, more than 31$"):
            read()
    assert MAX_PIXELS == 8192**2


def test_only_files_of_known_kinds_are_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"^{tmp_path} is not a file$"):
        open_image(tmp_path)
    with pytest.raises(Image.UnidentifiedImageError):
        read_header(png(Image.new("RGB", (4, 4)), "TGA"))
    with pytest.raises(ValueError, match=r"^its pixels \(RGB;16\) can't be read without loss; save it as TIFF$"):
        raw_pixels(b"P6 2 2 65535\n" + bytes(24))
