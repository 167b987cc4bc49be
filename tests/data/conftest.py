"""Pictures and files of pictures, written by the tests themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def photo(rng: np.random.Generator) -> np.ndarray:
    """A smooth random picture, uint8 (24, 24, 3)."""
    coarse = rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((24, 24), Image.Resampling.BICUBIC))


@pytest.fixture
def write_images() -> Callable[..., list[Path]]:
    """`write_images(folder, count, size=(20, 16))`: PNG files; file k is filled with the grey level k."""

    def write(folder: Path, count: int, size: tuple[int, int] = (20, 16)) -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{k:03}.png" for k in range(count)]
        for k, path in enumerate(paths):
            Image.new("RGB", size, (k, k, k)).save(path)
        return paths

    return write
