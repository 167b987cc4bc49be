"""From an encoded image to a square tensor: upright, without alpha, in the channels, size and range that are wanted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from kvicreg.data.intensity import Intensity
from kvicreg.data.tiff import has_tiff_magic, open_tiff, tiff_page
from kvicreg.data.transforms import LUMA

__all__ = [
    "MAX_CHANNELS",
    "MAX_PIXELS",
    "Content",
    "Fit",
    "Header",
    "decode",
    "open_image",
    "raw_pixels",
    "read_header",
]

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
MAX_PIXELS = 1 << 26  # 8192 x 8192, 200 MB decoded: a file of a few bytes can claim any size
MAX_CHANNELS = 32
Content = Path | bytes  # an image file, or what is in it
Fit = Literal["crop", "letterbox", "stretch"]
_ALPHA = ("RGBA", "LA", "PA", "La", "RGBa")
_SIXTEEN_BITS = Intensity((0.0,), (65535.0,))
_UNREAD = ("LA;16B", "RGB;15", "RGB;16")


class Header(NamedTuple):
    """What an image file says of itself.

    Attributes:
        side: the shorter one, in pixels.
        channels: how many, without alpha.
        deep: whether a value has more than 8 bits.
    """

    side: int
    channels: int
    deep: bool
    alpha: bool
    pages: int


def open_image(content: Content) -> Image.Image:
    """An image file with its header read. Only regular files, only the formats a folder is searched for.

    A pipe would be waited for; and Pillow would hand what looks like PostScript to another program.
    """
    if isinstance(content, Path) and not content.is_file():
        raise FileNotFoundError(f"{content} is not a file")
    return Image.open(BytesIO(content) if isinstance(content, bytes) else content, formats=FORMATS)


def read_header(content: Content) -> Header:
    """The header of an image file; its pixels are not read."""
    with _opened(content) as image:
        if image is None:
            with open_tiff(content) as tiff:
                leaf = tiff.pages[0].aspage()
                extras = [int(extra) for extra in leaf.extrasamples]
                alpha = bool(extras) and extras[-1] in (1, 2)
                side = min(leaf.imagelength, leaf.imagewidth)
                channels, deep = leaf.samplesperpixel - alpha, leaf.bitspersample > 8
                return Header(side, channels, deep, alpha, len(tiff.pages))
        pages = getattr(image, "n_frames", 1) if image.format == "TIFF" else 1
        channels = 1 if image.mode[0] in "1LIF" else 3
        return Header(min(image.size), channels, _is_deep(image), _has_alpha(image), pages)


def decode(content: Content, channels: int, size: int, intensity: Intensity | None = None, fit: Fit = "crop") -> Tensor:
    """An image (channels, size, size): turned upright (EXIF), made a square by `fit`, resized with antialiasing.

    It is uint8, or float32 on the same scale from 0 to 255 where more than 8 bits are mapped to it by `intensity`;
    without one, 16 bits are rounded to 8. Raises whatever Pillow does for a file that is missing, damaged or no image.
    """
    image = decode_deep(content, channels, size, intensity or _SIXTEEN_BITS, fit=fit)
    return image if intensity is not None or image.dtype == torch.uint8 else image.round().to(torch.uint8)


def decode_deep(
    content: Content,
    channels: int,
    size: int,
    intensity: Intensity | None,
    page: int | None = 0,
    fit: Fit = "crop",
) -> Tensor:
    """As `decode`, but float32 for every image of more than 8 bits, which without an intensity is refused.

    Args:
        page: of a TIFF with several; None for all of them as channels.
        fit: how it becomes a square.
    """
    with _opened(content) as image:
        if image is not None and page == 0 and channels in (1, 3) and not _is_deep(image):
            image.draft("RGB", (2 * size, 2 * size))  # JPEG: decode at a fraction of the size where that is enough
            _check_size(image)
            upright = without_alpha(ImageOps.exif_transpose(image)).convert("L" if channels == 1 else "RGB")
            array = np.asarray(squared(upright, size, fit))
            return torch.from_numpy(array.reshape(size, size, channels).transpose(2, 0, 1).copy())
    pixels = raw_pixels(content, page, keep_alpha=channels == 4)
    if pixels.dtype != np.uint8:
        if intensity is None or (intensity is _SIXTEEN_BITS and pixels.dtype.kind == "f"):
            raise ValueError(f"it has values of type {pixels.dtype}, expected 8 bits as in the first images")
        pixels = intensity.apply(pixels)
    planes = [_fitted(plane, size, fit) for plane in np.moveaxis(match_channels(pixels, channels), -1, 0)]
    return torch.from_numpy(np.stack(planes))


def raw_pixels(content: Content, page: int | None = 0, keep_alpha: bool = False) -> np.ndarray:
    """The values (h, w, channels) of an image as they are stored, alpha composited over white, all finite.

    Args:
        page: of a TIFF with several; None for all of them as channels.
        keep_alpha: give the alpha of an image with three other channels as its fourth.
    """
    with _opened(content) as image:
        if image is not None:
            pages = range(getattr(image, "n_frames", 1)) if page is None else [page]
            planes = [_pillow_pixels(content, image, number, keep_alpha) for number in _limited(pages)]
        else:
            with open_tiff(content) as tiff:
                pages = range(len(tiff.pages)) if page is None else [page]
                planes = []
                for number in _limited(pages):
                    pixels, alpha = tiff_page(tiff, number, limit=4 * MAX_PIXELS)
                    planes.append(_composited(pixels) if alpha and not keep_alpha else pixels)
    pixels = planes[0] if len(planes) == 1 else np.concatenate(planes, -1)
    if pixels.size == 0:
        raise ValueError(f"it has no pixels: its shape is {pixels.shape}")
    if pixels.shape[-1] > MAX_CHANNELS:
        raise ValueError(f"it has {pixels.shape[-1]} channels, more than {MAX_CHANNELS}")
    if pixels.dtype == bool:
        return pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype.kind not in "iuf":
        raise ValueError(f"it has values of type {pixels.dtype}, expected numbers")
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        raise ValueError("it has values that are not finite (NaN or infinity)")
    return pixels


def match_channels(pixels: np.ndarray, channels: int) -> np.ndarray:
    """Values (h, w, k) with the channels that are wanted: grey is repeated, three colours become luma."""
    count = pixels.shape[-1]
    if count == channels:
        return pixels
    if count == 1:
        return np.repeat(pixels, channels, -1)
    if count == 3 and channels == 1:
        luma = pixels.astype(np.float32) @ np.array(LUMA, np.float32)[:, None]
        return luma.round().astype(np.uint8) if pixels.dtype == np.uint8 else luma
    raise ValueError(f"it has {count} channels, expected {channels}; choose with channels (--channels {count})")


def without_alpha(image: Image.Image) -> Image.Image:
    """The image over white where it is transparent."""
    if not _has_alpha(image):
        return image
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def check_channels(channels: int) -> None:
    """Raise unless an image may have so many."""
    if not 1 <= channels <= MAX_CHANNELS:
        raise ValueError(f"channels: expected 1 to {MAX_CHANNELS}, got {channels}")


@contextmanager
def _opened(content: Content) -> Iterator[Image.Image | None]:
    """An image as Pillow reads it, or None for a TIFF that it can't read, or would read with a loss."""
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # a file that is bad is told once, by its error; and we have a limit of our own
        try:
            image = stack.enter_context(open_image(content))
        except Image.UnidentifiedImageError:
            if not has_tiff_magic(content):
                raise
            yield None
            return
        yield None if image.format == "TIFF" and _is_lossy(image) else image


def _is_lossy(image: Image.Image) -> bool:
    """Whether Pillow would drop channels of a TIFF, or the lower bits of several."""
    tags = image.tag_v2  # type: ignore[attr-defined]
    if tags.get(277, 1) == 1:
        return False
    return max(tags.get(258, (8,))) > 8 or 0 in tags.get(338, ())


def _is_deep(image: Image.Image) -> bool:
    return image.mode[0] in "IF" or _raw_mode(image).endswith(";16B") or _raw_mode(image) in _UNREAD


def _raw_mode(image: Image.Image) -> str:
    """How a PNG or PPM file stores its pixels, in Pillow's words."""
    if image.format not in ("PNG", "PPM") or not image.tile:  # type: ignore[attr-defined]
        return ""
    arguments = image.tile[0][3]  # type: ignore[attr-defined]
    if image.format == "PNG":
        return str(arguments)
    wide = image.mode == "RGB" and isinstance(arguments, tuple) and int(arguments[-1]) > 255
    return "RGB;16" if wide else ""


def _has_alpha(image: Image.Image) -> bool:
    return image.mode in _ALPHA or (image.mode in ("P", "L", "RGB") and "transparency" in image.info)


def _pillow_pixels(content: Content, image: Image.Image, page: int, keep_alpha: bool) -> np.ndarray:
    """The values (h, w, channels) of a page that Pillow reads."""
    if page:
        image.seek(page)
    _check_size(image)
    raw = _raw_mode(image)
    if raw in _UNREAD:
        raise ValueError(f"its pixels ({raw}) can't be read without loss; save it as TIFF")
    if raw in ("RGB;16B", "RGBA;16B"):
        pixels = _deep_png(content)
        return _composited(pixels) if raw == "RGBA;16B" and not keep_alpha else pixels
    upright = ImageOps.exif_transpose(image)
    if upright.mode[0] not in "IF":
        upright = upright.convert("RGBA") if keep_alpha and _has_alpha(upright) else without_alpha(upright)
        if upright.mode not in ("L", "RGB", "RGBA"):
            upright = upright.convert("L" if upright.mode == "1" else "RGB")
    array = np.asarray(upright)
    return array[..., None] if array.ndim == 2 else array


def _deep_png(content: Content) -> np.ndarray:
    """PNG with 16 bits for each of several channels: Pillow gives one byte at a time, the higher or the lower."""
    halves = []
    for order in "BL":  # of bytes that are stored with the higher first
        with open_image(content) as image:
            tile = image.tile[0]  # type: ignore[attr-defined]
            image.tile = [(*tile[:3], tile[3][:-1] + order)]  # type: ignore[attr-defined]
            halves.append(np.asarray(image))
    return halves[0].astype(np.uint16) << 8 | halves[1]


def _composited(pixels: np.ndarray) -> np.ndarray:
    """Values over white, where the last channel is alpha; white is the greatest value of their type."""
    white = float(np.iinfo(pixels.dtype).max) if pixels.dtype.kind in "iu" else 1.0
    alpha = pixels[..., -1:].astype(np.float32) / white
    over = pixels[..., :-1] * alpha + white * (1 - alpha)
    return (over.round() if pixels.dtype.kind in "iu" else over).astype(pixels.dtype)


def _check_size(image: Image.Image) -> None:
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"it has {image.width}x{image.height} pixels, more than {MAX_PIXELS:,}")


def _limited(pages: range | list[int]) -> range | list[int]:
    if len(pages) > MAX_CHANNELS:
        raise ValueError(f"it has {len(pages)} pages, more than the {MAX_CHANNELS} channels that an image may have")
    return pages


def squared(image: Image.Image, size: int, fit: Fit) -> Image.Image:
    """A square of an image, resized with antialiasing: its centre, all of it between black bars, or stretched."""
    if fit == "letterbox":
        return ImageOps.pad(image, (size, size), Image.Resampling.BILINEAR)
    if fit == "stretch":
        return image.resize((size, size), Image.Resampling.BILINEAR)
    return ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)


def _fitted(plane: np.ndarray, size: int, fit: Fit) -> np.ndarray:
    """A square of one channel (h, w), resized."""
    image = Image.fromarray(np.ascontiguousarray(plane if plane.dtype == np.uint8 else plane.astype(np.float32)))
    return np.asarray(squared(image, size, fit))
