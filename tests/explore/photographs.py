"""Makes a folder of small photographs of two kinds."""

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("red <b>", "green")


def draw(kind: int, number: int, side: int = 48) -> Image.Image:
    """Patches of one of two colours, a different pattern for every number, with some noise."""
    rng = np.random.default_rng(1000 * kind + number)
    patches = np.full((6, 6, 3), 40)
    patches[..., kind] = rng.integers(90, 230, (6, 6))
    smooth = Image.fromarray(patches.astype(np.uint8)).resize((side, side), Image.Resampling.BICUBIC)
    noisy = np.asarray(smooth) + rng.normal(0, 12, (side, side, 3))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def write_photos(folder: Path, count: int = 20) -> Path:
    for kind, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            draw(kind, number).save(folder / name / f"{number:03}.png")
    return folder
