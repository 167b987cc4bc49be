"""`Intensity`: which values of images with more than 8 bits are black and which are white."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Intensity", "intensity_rule", "measure_intensity"]

_VALUES = 1 << 16  # values of an image, evenly spaced, that percentiles are taken from


@dataclass(frozen=True)
class Intensity:
    """``255 (value - low) / (high - low)``, between 0 and 255: how raw values become those of an image.

    Attributes:
        low, high: one number for all channels, or one for each.

    Example:
        >>> Intensity((0.0,), (4095.0,)).text
        '0:4095'
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        ends = (*self.low, *self.high)
        if not self.low or len(self.low) != len(self.high) or not np.all(np.isfinite(ends)):
            raise ValueError(f"intensity: expected as many finite lows as highs, got {self.low} and {self.high}")
        if any(low >= high for low, high in zip(self.low, self.high, strict=True)):
            raise ValueError(f"intensity: expected every low below its high, got {self.text}")

    @property
    def text(self) -> str:
        """The range as the setting `intensity` takes it, such as 0:4095."""
        return ",".join(f"{low:.9g}:{high:.9g}" for low, high in zip(self.low, self.high, strict=True))

    def apply(self, values: np.ndarray, axis: int = -1) -> np.ndarray:
        """Raw values, whose channels lie along `axis`, as float32 in [0, 255]."""
        if len(self.low) not in (1, values.shape[axis]):
            raise ValueError(f"intensity: expected {values.shape[axis]} ranges, one a channel, got {self.text}")
        shape = [1] * values.ndim
        shape[axis] = len(self.low)
        low, high = (np.array(ends, np.float32).reshape(shape) for ends in (self.low, self.high))
        scaled = (values.astype(np.float32) - low) * (255 / (high - low))
        return np.clip(scaled, 0, 255, out=scaled)


def intensity_rule(text: str) -> float | Intensity:
    """What the setting `intensity` says: a fixed range, or which percentage to cut off at either end (0: none).

    Example:
        >>> intensity_rule("minmax"), intensity_rule("0.5%"), intensity_rule("0:4095")
        (0.0, 0.5, Intensity(low=(0.0,), high=(4095.0,)))
    """
    try:
        if text == "minmax":
            return 0.0
        if text.endswith("%"):
            percent = float(text[:-1])
            if 0 <= percent < 50:
                return percent
        else:
            pairs = [tuple(map(float, pair.split(":"))) for pair in text.split(",")]
            if all(len(pair) == 2 for pair in pairs):
                return Intensity(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))
    except ValueError as error:
        if str(error).startswith("intensity"):
            raise
    raise ValueError(
        f"intensity: expected minmax, a percentage to cut off at either end such as 0.5%, or a range such as 0:4095, "
        f"got {text!r}"
    )


def measure_intensity(images: Iterable[np.ndarray], percent: float = 0.0) -> Intensity | None:
    """The range of raw images (..., channels): least and greatest values, or their percentiles; None of no image.

    One and three channels share a range, so that colours stay what they are; others have one each.
    """
    ends: list[Sequence[np.ndarray]] = []
    samples: list[np.ndarray] = []
    channels = None
    for image in images:
        values = image.reshape(-1, image.shape[-1])
        if values.shape[1] in (1, 3):
            values = values.reshape(-1, 1)
        channels = channels or values.shape[1]
        if values.shape[1] != channels:  # another kind of image: told when it is decoded
            continue
        if percent == 0:
            ends.append((values.min(0), values.max(0)))
        else:
            samples.append(values[:: -(-len(values) // _VALUES)].astype(np.float32))
    if not ends and not samples:
        return None
    if percent == 0:
        low, high = np.min([end[0] for end in ends], 0), np.max([end[1] for end in ends], 0)
    else:
        low, high = np.percentile(np.concatenate(samples), [percent, 100 - percent], axis=0)
    low, high = low.astype(np.float64), high.astype(np.float64)
    high = np.where(high > low, high, low + 1)  # all values are equal
    return Intensity(tuple(low.tolist()), tuple(high.tolist()))
