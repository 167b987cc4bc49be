"""`load`: a name, or a folder, file or archive of one's own, becomes an `ImageData`."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from kvicreg.data.arrays import ArrayData
from kvicreg.data.catalogue import DATA_SETS, data_root
from kvicreg.data.files import FileData
from kvicreg.data.given import refuse_given
from kvicreg.data.images import ImageData
from kvicreg.data.named import load_named, named_folder
from kvicreg.data.pixels import check_channels
from kvicreg.data.sources import Listing, ReadOptions, find_source
from kvicreg.data.sources.folders import list_folder
from kvicreg.data.stores import NoSplit

__all__ = ["SPLITS", "load"]

SPLITS = ("train", "val", "test", "unlabelled")


def load(
    source: str | Path,
    split: str = "train",
    *,
    root: str | Path | None = None,
    image_size: int | None = None,
    channels: int | None = None,
    **reading: Any,
) -> ImageData:
    """The images of `source`.

    Args:
        source: a name (`kvicreg data list` tells them), a folder of images, a list file, a table (.csv, .parquet), an
            array (.npy, .npz, .pt), an archive (.zip, .tar), a folder that Hugging Face's `datasets` has saved, a data
            set on its hub (hf:user/name), a folder of shards, or shards at an address (s3://bucket/shards).
        split: "train", "val", "test" (the official validation set where the test labels are secret) or "unlabelled".
            Where there is only one of val and test, both names mean it.
        root: where named data sets live; by default $KVICREG_DATA, else ~/.cache/kvicreg.
        image_size: side of the images; by default the data set's own, for files the median one, at most 224.
        channels: 1 to 32; by default the data set's own, for files in grey or colour 3.
        reading: how images of one's own are read, by the names of `ReadOptions`: class_level, image_column,
            label_column, pages, intensity, fit.

    Example:
        >>> load("mnist-small")
        ArrayData('mnist-small', 'train': 8,000 images 1x28x28, 10 classes)
    """
    refuse_given(str(source))
    options = ReadOptions.of(**reading)
    if split not in SPLITS:
        raise ValueError(f"split: expected one of {', '.join(SPLITS)}, got {split!r}")
    if image_size is not None and image_size < 1:
        raise ValueError(f"image_size: expected at least 1, got {image_size}")
    if channels is not None:
        check_channels(channels)
    name = str(source)
    if name in DATA_SETS:
        if Path(name).is_dir() and Path(name).resolve().parent != data_root(root).resolve():
            _tell_whose_name(name)
        is_array = name not in ("tiny-imagenet", "imagenet100")
        for given in sorted(options.given().keys() - (() if is_array else {"fit"})):
            raise ValueError(f"{given}: {name} is a data set known by name, which does not read it")
        if is_array:
            return load_named(name, split, root, image_size, channels)
        folder, classes = named_folder(name, data_root(root))
        return _loaded(lambda which, _: list_folder(folder, which, classes), name, split, image_size, channels, options)
    opened = find_source(source, options)
    if opened is None:
        near = difflib.get_close_matches(name, DATA_SETS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the names are {', '.join(DATA_SETS)}"
        raise ValueError(f"data: {name!r} is neither a data set's name nor a folder or file here; {hint}")
    return _loaded(opened, source_name(name), split, image_size, channels, options)


@cache
def _tell_whose_name(name: str) -> None:
    """Say, once, that a folder here is not what is read."""
    logging.getLogger("kvicreg").warning("%s is the data set of that name; for the folder here write ./%s", name, name)


def source_name(source: str) -> str:
    """What images are called whose source has no name of its own: the last part of its path or address."""
    path = Path(source).expanduser()
    if path.is_dir():
        return path.resolve().name or "images"
    return re.sub(r"[-_.]*[{].*", "", path.stem) or "images"


def _loaded(
    listed: Callable[[str, ReadOptions], Listing | ImageData],
    name: str,
    split: str,
    image_size: int | None,
    channels: int | None,
    options: ReadOptions,
) -> ImageData:
    """The images of a split. Those of other splits take size, channels and intensity of the training images."""
    content = listed(split, options)
    if isinstance(content, Listing):
        data: ImageData = FileData(
            content.paths, content.labels, name=name, split=split, class_names=content.class_names, size=image_size,
            channels=channels or content.channels, read=content.read, pages=options.pages, intensity=options.intensity,
            fit=options.fit, notes=content.notes,
        )  # fmt: skip
    elif isinstance(content, ArrayData):
        data = content.in_shape(image_size, channels)
    else:
        data = content
    is_measured = data.intensity is not None and ":" not in options.intensity
    if split == "train" or not (image_size is None or channels is None or is_measured):
        return data
    try:
        training = _loaded(listed, name, "train", image_size, channels, options)
    except NoSplit:  # no training split: those of its own
        return data
    channels, image_size, _ = training.shape
    intensity = options.intensity if training.intensity is None else training.intensity.text
    if data.shape == training.shape and (data.intensity is None or data.intensity == training.intensity):
        return data
    return _loaded(listed, name, split, image_size, channels, options.replace(intensity=intensity))
