"""Bad images: of any format, mode and peculiarity, damaged, or small files of a great size."""

from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.reliability.damage import spoil


def picture(chance: random.Random) -> Image.Image:
    size = (chance.choice((1, 2, 7, 30, 100)), chance.choice((1, 3, 16, 64)))
    mode = chance.choice(("RGB", "L", "RGBA", "P", "CMYK", "1", "LA", "I;16", "YCbCr", "I", "F"))
    noise = np.random.default_rng(chance.randrange(2**32)).integers(0, 256, (size[1], size[0], 4), dtype=np.uint8)
    colour = Image.fromarray(noise[..., :3])
    if mode in ("I;16", "I", "F"):
        kind = {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
        return Image.fromarray(noise[..., 0].astype(kind) * kind(200))
    return colour.convert("L").convert(mode) if mode == "LA" else colour.convert(mode)


def image_bytes(chance: random.Random) -> bytes:
    """An image of some format, mode and peculiarity."""
    form = chance.choice(("PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP", "PPM"))
    image, file = picture(chance), io.BytesIO()
    options: dict[str, Any] = {}
    if form == "GIF" and chance.random() < 0.5:
        options = {"save_all": True, "append_images": [picture(chance).convert("P").resize(image.size)] * 3}
    if form == "PNG" and image.mode == "P":
        options["transparency"] = 0
    if form in ("JPEG", "TIFF", "WEBP", "PNG") and chance.random() < 0.4:
        exif = Image.Exif()
        exif[0x0112] = chance.choice((0, 1, 3, 6, 8, 99))
        options["exif"] = exif
    try:
        image.save(file, form, **options)
    except (OSError, ValueError, KeyError):
        image.convert("RGB").save(file, form)
    return file.getvalue()


def bomb(chance: random.Random) -> bytes:
    """A PNG of few bytes that claims a great size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    side = chance.choice((5000, 9000, 30000, 2**16, 2**31 - 1))
    header = struct.pack(">IIBBBBB", side, side, chance.choice((8, 16)), chance.choice((0, 2, 6)), 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(99999)))
        + chunk(b"IEND", b"")
    )


def images(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """A folder with some good and some bad files: shown as a contact sheet, or embedded."""
    place = folder / chance.choice(("photos", "a <b>", "ünï", "-x"))
    place.mkdir()
    for k in range(chance.randrange(1, 7)):
        content = bomb(chance) if chance.random() < 0.1 else image_bytes(chance)
        if chance.random() < 0.6:
            content = spoil(chance, content)
        (place / f"{k}{chance.choice(('.png', '.jpg', '.gif', '.webp', '.tif', '.txt', ''))}").write_bytes(content)
    if chance.random() < 0.5:
        return ["data", "show", f"./{place.name}", "--out", "sheet.png", f"--images={chance.choice((1, 3))}"]
    return ["embed", str(base / "run"), f"./{place.name}", "--workers=0", f"--out=e.{chance.choice(('npz', 'csv'))}"]
