"""What is wrong with files: unreadable, tiny, blank, blurred, or a copy of another, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from kvicreg.data import FileData, ImageData
from kvicreg.data.pixels import decode, read_header
from kvicreg.explore.embedding import Progress
from kvicreg.storage import message_of

__all__ = ["Problem", "file_problems"]

Kind = Literal["unreadable", "tiny", "blank", "blurred", "copy"]
TINY, BLANK, BLURRED = 32, 4.0, 0.004
"""Side in pixels, deviation of the grey values of 0 to 255, and sharpness below which an image is told."""
_SIDE = 256
_AT_A_TIME = 512


@dataclass(frozen=True)
class Problem:
    """What is wrong with an image: `detail` says how much, or of which image it is a copy."""

    index: int
    kind: Kind
    detail: str


class _Look(NamedTuple):
    digest: bytes
    side: int
    deviation: float
    sharpness: float


def file_problems(
    data: ImageData,
    *,
    tiny: int = TINY,
    blank: float = BLANK,
    blurred: float = BLURRED,
    workers: int = 2,
    progress: Progress | None = None,
) -> list[Problem]:
    """Every problem of every image, in their order.

    Sharpness is the variance of the image's Laplacian over the variance of the image, at no more than 256 pixels: a
    sharp photograph has 0.08 to 2, one that is blurred with a deviation of 3 pixels less than 0.004.

    Args:
        data: the images in their own size.
        tiny: shorter side in pixels below which an image is tiny.
        blank: deviation of the grey values, of 0 to 255, below which an image is blank.
        blurred: sharpness below which an image that is not blank is blurred; 0 for none.

    Example:
        >>> {problem.kind for problem in file_problems(load("mnist-small").subset(range(10)), workers=0)}
        {'tiny'}
    """
    problems: list[Problem] = []
    first: dict[bytes, int] = {}
    for index, look in enumerate(_looks(data, workers)):
        if progress is not None and (index % 64 == 63 or index + 1 == len(data)):
            progress("files", index + 1, len(data))
        if isinstance(look, str):
            problems.append(Problem(index, "unreadable", look))
            continue
        if look.digest in first:
            problems.append(Problem(index, "copy", f"of image {first[look.digest]}"))
        first.setdefault(look.digest, index)
        if look.side < tiny:
            problems.append(Problem(index, "tiny", f"{look.side} pixels"))
        if look.deviation < blank:
            problems.append(Problem(index, "blank", f"deviation {look.deviation:.2g}"))
        elif look.sharpness < blurred:
            problems.append(Problem(index, "blurred", f"sharpness {look.sharpness:.2g}"))
    return problems


def _looks(data: ImageData, workers: int) -> Iterator[_Look | str]:
    """What is seen of each image, or why it can't be read."""
    if not isinstance(data, FileData):
        for start in range(0, len(data), _AT_A_TIME):
            images = data.fetch(torch.arange(start, min(len(data), start + _AT_A_TIME)))
            digests = [hashlib.blake2b(image.numpy().tobytes()).digest() for image in images]
            numbers = (values.tolist() for values in _measures(images))
            yield from (_Look(d, images.shape[2], *n) for d, *n in zip(digests, *numbers, strict=True))
        return
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for start in range(0, len(data), _AT_A_TIME):
            yield from pool.map(lambda path: _look_at(data, path), data.paths[start : start + _AT_A_TIME])


def _look_at(data: FileData, path: Path) -> _Look | str:
    try:
        content = path if data.read is None else data.read(path)
        content = content.read_bytes() if isinstance(content, Path) else content
        side = read_header(content).side
        image = decode(content, data.shape[0], min(_SIDE, side), data.intensity)
    except ImportError:
        raise
    except Exception as error:  # Pillow raises whatever the damage makes it stumble over
        return message_of(error)
    deviation, sharpness = _measures(image[None])
    return _Look(hashlib.blake2b(content).digest(), side, float(deviation), float(sharpness))


def _measures(images: Tensor) -> tuple[Tensor, Tensor]:
    """Deviation and sharpness (b,) of images (b, c, h, w)."""
    grey = images.float().mean(1, keepdim=True)
    variance = grey.flatten(1).var(1, correction=0)
    if min(grey.shape[2:]) < 3:
        return variance.sqrt(), torch.ones_like(variance)
    laplacian = F.conv2d(grey, torch.tensor([[[[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]]]))
    return variance.sqrt(), laplacian.flatten(1).var(1, correction=0) / variance.clamp_min(1e-6)
