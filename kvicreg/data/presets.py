"""How strong the views are: one dataclass, one table of presets, one function that combines them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class ViewConfig:
    """Strengths of the random views. Chances are probabilities in [0, 1]; a strength of 0 switches its part off."""

    crop_area: float = 1.0
    """Smallest part of the image's area that a random resized crop keeps; 1 means no crop."""
    crop_ratio: float = 4 / 3
    """Widest aspect ratio of a crop (and 1 / crop_ratio the tallest)."""
    flip: float = 0.0
    """Chance of a horizontal flip."""
    jitter: float = 0.0
    """Chance that brightness, contrast, saturation and hue change at all."""
    brightness: float = 0.0
    """Factor drawn from 1 -+ this."""
    contrast: float = 0.0
    """Factor drawn from 1 -+ this."""
    saturation: float = 0.0
    """Factor drawn from 1 -+ this."""
    hue: float = 0.0
    """Turn of the colour circle drawn from -+ this; 0.5 is half the circle."""
    grayscale: float = 0.0
    """Chance of losing all colour."""
    blur: float = 0.0
    """Chance of a Gaussian blur."""
    blur_sigma: float = 2.0
    """Largest standard deviation of the blur, in pixels of the view; the smallest is 0.1."""
    solarize: float = 0.0
    """Chance of inverting every value above one half."""
    rotation: float = 0.0
    """Rotation drawn from -+ this many degrees."""
    translation: float = 0.0
    """Shift along each axis drawn from -+ this part of the side."""
    scale: float = 0.0
    """Zoom drawn from 1 -+ this."""
    shear: float = 0.0
    """Shear drawn from -+ this many degrees."""

    def __post_init__(self) -> None:
        limits = {"crop_ratio": (1.0, 10.0), "blur_sigma": (0.1, 100.0), "hue": (0.0, 0.5)}
        limits |= {"rotation": (0.0, 180.0), "shear": (0.0, 60.0), "scale": (0.0, 0.9)}
        for field in fields(self):
            value, (low, high) = getattr(self, field.name), limits.get(field.name, (0.0, 1.0))
            if not isinstance(value, int | float) or not low <= value <= high:
                raise ValueError(f"view {field.name}: expected a number from {low:g} to {high:g}, got {value!r}")
        if self.crop_area == 0:
            raise ValueError("view crop_area: expected a number above 0, got 0")

    @property
    def crops(self) -> bool:
        """Whether a view may show a part or the mirror image."""
        return self.crop_area < 1 or self.flip > 0

    @property
    def affine(self) -> bool:
        """Whether the image may be moved so that the view shows what lies beyond its border."""
        return max(self.rotation, self.translation, self.scale, self.shear) > 0


_NATURAL = ViewConfig(
    crop_area=0.2, flip=0.5, jitter=0.8, brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, grayscale=0.2
)  # fmt: skip

PRESETS: dict[str, ViewConfig] = {
    "digits": ViewConfig(rotation=15, translation=0.1, scale=0.2, shear=15),
    "clothes": ViewConfig(
        crop_area=0.5, flip=0.5, jitter=0.8, brightness=0.4, contrast=0.4, rotation=5, translation=0.05,
        scale=0.1
    ),
    "small": replace(_NATURAL, blur=0.2, blur_sigma=1.0),  # 32 pixels: more blur leaves nothing to see
    "natural": replace(_NATURAL, blur=0.5, solarize=0.1),
    "none": ViewConfig(),
}  # fmt: skip

PRESET_OF_DATA = {
    "mnist": "digits",
    "mnist-small": "digits",
    "digits": "digits",
    "fashion-mnist": "clothes",
    "cifar10": "small",
}  # every other data set, and any folder: "natural"


def view_config(preset: str, changes: Mapping[str, float] | None = None) -> ViewConfig:
    """The views of a preset, or of a data set's name, with single strengths changed.

    Example:
        >>> view_config("cifar10", {"blur": 0}).crop_area
        0.2
    """
    config = PRESETS[preset if preset in PRESETS else PRESET_OF_DATA.get(preset, "natural")]
    known = [field.name for field in fields(ViewConfig)]
    for name in changes or {}:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"views: no strength is called {name!r}{hint} There are: {', '.join(known)}")
    return replace(config, **(changes or {}))
