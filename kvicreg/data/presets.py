"""How strong the views are: the strengths, a table of presets, and the settings that choose and change them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import Literal

from kvicreg.options import Options, did_you_mean, option

__all__ = ["PRESETS", "ViewConfig", "ViewOptions", "view_config"]


@dataclass(frozen=True, kw_only=True)
class ViewConfig(Options):
    """Strengths of the random views. Chances are probabilities in [0, 1]; a strength of 0 switches its part off."""

    crop_area: float = option(
        1.0, "Smallest part of the area that a random crop keeps; 1 means no crop.", above=0, at_most=1
    )
    crop_area_max: float = option(1.0, "Largest part of the area that a random crop keeps.", above=0, at_most=1)
    crop_ratio: float = option(
        4 / 3, "Widest aspect ratio of a crop; its inverse is the tallest.", at_least=1, at_most=10
    )
    flip: float = option(0.0, "Chance of a horizontal flip.", at_least=0, at_most=1)
    jitter: float = option(0.0, "Chance that brightness, contrast, saturation, hue change.", at_least=0, at_most=1)
    brightness: float = option(0.0, "Brightness factor drawn from 1 -+ this.", at_least=0, at_most=1)
    contrast: float = option(0.0, "Contrast factor drawn from 1 -+ this.", at_least=0, at_most=1)
    saturation: float = option(0.0, "Saturation factor drawn from 1 -+ this.", at_least=0, at_most=1)
    hue: float = option(0.0, "Turn of the color circle drawn from -+ this; 0.5 is half of it.", at_least=0, at_most=0.5)
    grayscale: float = option(0.0, "Chance of losing all color.", at_least=0, at_most=1)
    blur: float = option(0.0, "Chance of a Gaussian blur.", at_least=0, at_most=1)
    blur_sigma: float = option(
        2.0,
        "Largest standard deviation of the blur in pixels.",
        at_least=0.1,
        at_most=100,
    )
    solarize: float = option(0.0, "Chance of inverting every value above one half.", at_least=0, at_most=1)
    rotation: float = option(0.0, "Rotation drawn from -+ this many degrees.", at_least=0, at_most=180)
    translation: float = option(0.0, "Shift along each axis, drawn from -+ this part of a side.", at_least=0, at_most=1)
    zoom: float = option(0.0, "Zoom drawn from 1 -+ this.", at_least=0, at_most=0.9)
    shear: float = option(0.0, "Shear drawn from -+ this many degrees.", at_least=0, at_most=60)
    elastic: float = option(0.0, "Bending: shifts here and there, -+ this part of a side.", at_least=0, at_most=0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.crop_area > self.crop_area_max:
            raise ValueError(f"crop_area {self.crop_area:g} is above crop_area_max, {self.crop_area_max:g}")

    @property
    def crops(self) -> bool:
        """Whether a view may show a part or the mirror image."""
        return self.crop_area < 1 or self.flip > 0

    @property
    def affine(self) -> bool:
        """Whether the image may be moved so that the view shows what lies beyond its border."""
        return max(self.rotation, self.translation, self.zoom, self.shear, self.elastic) > 0


_NATURAL = ViewConfig(
    crop_area=0.2, flip=0.5, jitter=0.8, brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, grayscale=0.2
)  # fmt: skip

PRESETS: dict[str, ViewConfig] = {
    "digits": ViewConfig(rotation=15, translation=0.1, zoom=0.2, shear=15),
    "clothes": ViewConfig(
        crop_area=0.5, flip=0.5, jitter=0.8, brightness=0.4, contrast=0.4, rotation=5, translation=0.05,
        zoom=0.1
    ),
    "small": replace(_NATURAL, blur=0.2, blur_sigma=1.0),  # of few pixels more blur leaves nothing to see
    "natural": replace(_NATURAL, blur=0.5, solarize=0.1),
    "none": ViewConfig(),
}  # fmt: skip
"""The strengths of the random views by name, for `--views`."""

PRESET_OF_DATA = {
    "mnist": "digits",
    "mnist-small": "digits",
    "digits": "digits",
    "fashion-mnist": "clothes",
    "cifar10": "small",
    "tiny-imagenet": "natural",
}
CHANCES = {**dict.fromkeys(("brightness", "contrast", "saturation", "hue"), "jitter"), "blur_sigma": "blur"}
"""The chance of the part that a strength belongs to."""
SMALL_SIDE = 64
"""Other images get "small" views up to so many pixels a side, and "natural" ones above."""


Preset = Literal["auto", "digits", "clothes", "small", "natural", "none"]

# each strength once more, as a setting that is open unless given
_Changes = make_dataclass(
    "_Changes",
    [(f.name, float | None, option(None, f.metadata["help"], **f.metadata["limits"])) for f in fields(ViewConfig)],
    bases=(Options,),
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True, kw_only=True)
class ViewOptions(Options):
    """Settings of the random views: a preset, and single strengths changed on top of it."""

    preset: Preset = option(
        "auto", "Preset of the random views: auto, digits, clothes, small, natural, none.", flag="views"
    )
    changes: Options = field(default_factory=_Changes)

    def config(self, data_name: str, size: int) -> ViewConfig:
        """The strengths for data of that name, of images of this side."""
        usual = PRESET_OF_DATA.get(data_name, "small" if size <= SMALL_SIDE else "natural")
        return view_config(usual if self.preset == "auto" else self.preset, self.changes.given())


def view_config(preset: str, changes: Mapping[str, float] | None = None) -> ViewConfig:
    """The views of a preset, or of a data set's name, with single strengths changed.

    Example:
        >>> view_config("cifar10", {"blur": 0}).crop_area
        0.2
    """
    name = PRESET_OF_DATA.get(preset, preset)
    if name not in PRESETS:
        raise ValueError(f"views: there is no preset {preset!r}; {did_you_mean(preset, PRESETS)}")
    strengths = [f.name for f in fields(ViewConfig)]
    for change in changes or {}:
        if change not in strengths:
            raise ValueError(f"views: no strength is called {change!r}; {did_you_mean(change, strengths)}")
    changed = replace(PRESETS[name], **(changes or {}))
    for change, chance in CHANCES.items():
        if getattr(changed, chance) == 0 and getattr(changed, change) != getattr(PRESETS[name], change):
            raise ValueError(f"{change} is read only where {chance} is above 0, and here it is 0: give {chance} too")
    return changed
