"""Made-up images in the official formats, so that every experiment can be tried in seconds without any data.

Ten classes, each a grating of its own direction and wavelength under noise: easy, but not for free.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from kvicreg.data.formats import write_idx

TRAIN, TEST, CLASSES = 200, 60, 10
NAMES = [f"n{k:08}" for k in range(CLASSES)]


def write_stand_ins(root: Path) -> Path:
    """MNIST, Fashion-MNIST, CIFAR-10, STL-10, TinyImageNet and ImageNet100 in small below `root`; returns it."""
    if not (root / "complete").is_file():
        rng = np.random.default_rng(0)
        made = {"mnist": _idx, "fashion-mnist": _idx, "cifar10": _cifar10, "stl10": _stl10}
        for name, make in {**made, "tiny-imagenet": _tiny_imagenet, "imagenet100": _imagenet100}.items():
            (root / name).mkdir(parents=True, exist_ok=True)
            make(root / name, rng)
        (root / "complete").touch()
    return root


def gratings(count: int, side: int, channels: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """uint8 images (count, channels, side, side) and labels (count,)."""
    labels = np.arange(count, dtype=np.uint8) % CLASSES
    angle = math.pi * labels / CLASSES + rng.normal(0, 0.08, count)
    waves = 2 + labels % 3 + rng.normal(0, 0.2, count)
    y, x = np.mgrid[:side, :side] / side
    along = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
    wave = np.sin(2 * math.pi * (waves[:, None, None] * along + rng.random((count, 1, 1))))
    tint = rng.uniform(0.5, 1, (count, channels, 1, 1))
    images = 127 + 90 * tint * wave[:, None] + rng.normal(0, 20, (count, channels, side, side))
    return images.clip(0, 255).astype(np.uint8), labels


def _idx(folder: Path, rng: np.random.Generator) -> None:
    for stem, count in (("train", TRAIN), ("t10k", TEST)):
        images, labels = gratings(count, 28, 1, rng)
        write_idx(folder / f"{stem}-images-idx3-ubyte", images[:, 0])
        write_idx(folder / f"{stem}-labels-idx1-ubyte", labels)


def _cifar10(folder: Path, rng: np.random.Generator) -> None:
    """Records of a label and three planes, in five batches."""
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        images, labels = gratings(TEST if name == "test_batch" else TRAIN // 5, 32, 3, rng)
        records = np.concatenate([labels[:, None], images.reshape(len(images), -1)], 1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def _stl10(folder: Path, rng: np.random.Generator) -> None:
    """Planes column by column; labels count from 1."""
    for name, count in (("train", TRAIN // 2), ("test", TEST), ("unlabeled", TEST)):
        images, labels = gratings(count, 96, 3, rng)
        (folder / f"{name}_X.bin").write_bytes(np.ascontiguousarray(images.transpose(0, 1, 3, 2)).tobytes())
        if name != "unlabeled":
            (folder / f"{name}_y.bin").write_bytes((labels + 1).tobytes())


def _tiny_imagenet(folder: Path, rng: np.random.Generator) -> None:
    """train/<wnid>/images/*.JPEG, val/images/*.JPEG with val_annotations.txt."""
    for number, (image, name) in enumerate(_named(TRAIN, 64, rng)):
        _jpeg(folder / "train" / name / "images" / f"{name}_{number}.JPEG", image)
    lines = []
    for number, (image, name) in enumerate(_named(TEST, 64, rng)):
        _jpeg(folder / "val" / "images" / f"val_{number}.JPEG", image)
        lines.append(f"val_{number}.JPEG\t{name}\t0\t0\t63\t63\n")
    (folder / "val" / "val_annotations.txt").write_text("".join(lines))
    (folder / "wnids.txt").write_text("\n".join(NAMES) + "\n")


def _imagenet100(folder: Path, rng: np.random.Generator) -> None:
    """train/<class>/ and val/<class>/, with a classes.txt that names the ten there are."""
    for split, count in (("train", TRAIN), ("val", TEST)):
        for number, (image, name) in enumerate(_named(count, 72, rng)):
            _jpeg(folder / split / name / f"{number}.JPEG", image)
    (folder / "classes.txt").write_text("\n".join(NAMES) + "\n")


def _named(count: int, side: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, str]]:
    images, labels = gratings(count, side, 3, rng)
    return zip(images, (NAMES[label] for label in labels), strict=True)


def _jpeg(path: Path, image: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.transpose(1, 2, 0)).save(path, quality=90)
