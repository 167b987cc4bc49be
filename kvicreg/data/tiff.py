"""TIFF files that Pillow can't read, or not without loss: many channels, several channels of 16 bits, floats."""

from __future__ import annotations

import logging
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tifffile import TiffFile

__all__ = ["has_tiff_magic", "open_tiff", "tiff_page"]

_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def has_tiff_magic(content: Path | bytes) -> bool:
    """Whether a file begins as a TIFF does."""
    if isinstance(content, bytes):
        return content[:4] in _MAGIC
    with content.open("rb") as file:
        return file.read(4) in _MAGIC


def open_tiff(content: Path | bytes) -> TiffFile:
    """A TIFF file opened by tifffile."""
    try:
        import tifffile
    except ImportError as error:
        raise ImportError("TIFF with such pixels is read by tifffile: pip install 'kvicreg[sources]'") from error
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)  # what is wrong with a file is said by its error
    return tifffile.TiffFile(BytesIO(content) if isinstance(content, bytes) else content)


def tiff_page(tiff: TiffFile, page: int, limit: int) -> tuple[np.ndarray, bool]:
    """The pixels (h, w, channels) of a page, at most `limit` values, and whether the last channel is alpha."""
    if page >= len(tiff.pages):
        raise ValueError(f"it has {len(tiff.pages)} pages, expected one numbered {page}")
    leaf = tiff.pages[page].aspage()
    if leaf.imagedepth != 1:
        raise ValueError("it holds a volume, expected flat pages")
    if leaf.size > limit:
        raise ValueError(f"a page has {leaf.size:,} values, more than {limit:,} pixels have")
    pixels = leaf.asarray()
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    elif leaf.planarconfig == 2:
        pixels = np.moveaxis(pixels, 0, -1)
    extras = [int(extra) for extra in leaf.extrasamples]
    return pixels, bool(extras) and extras[-1] in (1, 2)
