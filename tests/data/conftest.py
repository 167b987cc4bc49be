"""Files in the official layouts, written by the tests themselves, and the real slices where they are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def slices() -> Path:
    """Real images: tiny-imagenet-200/ and photos/, below KVICREG_TEST_DATA."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("KVICREG_TEST_DATA", beside))
    if not (folder / "photos").is_dir():
        pytest.skip(f"no real images in {folder}; KVICREG_TEST_DATA tells where they are")
    return folder


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
