"""What a run is evaluated on: its data or other data in the encoder's size, and the views of its training."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kvicreg.data import ImageData, Views, load
from kvicreg.data.catalogue import DATA_SETS
from kvicreg.data.images import ONE_CLASS
from kvicreg.data.sources import NoSplit, reads_of
from kvicreg.measures.features import recorded_source
from kvicreg.runs import RunFolder
from kvicreg.storage import counted

__all__ = ["AS_THEY_ARE", "EvaluationData", "adapted", "evaluation_data", "given_data", "reading_for", "training_views"]

AS_THEY_ARE = "as they are"


@dataclass(frozen=True)
class EvaluationData:
    """Train images (to fit probes) and test images (to score them), in the encoder's size, and how they got there."""

    name: str
    train: ImageData
    test: ImageData
    adaptation: str

    @classmethod
    def of(cls, train: ImageData, test: ImageData, notes: Sequence[str]) -> EvaluationData:
        """The images, without labels where those to fit probes are of one class."""
        if train.is_of_one_class:
            train, test, notes = _without_labels(train), _without_labels(test), [*notes, ONE_CLASS]
        return cls(train.name, train, test, "; ".join(notes) or AS_THEY_ARE)

    @property
    def labelled(self) -> bool:
        """Whether accuracy can be measured."""
        return self.train.labels is not None and self.test.labels is not None


def training_views(run: RunFolder) -> Views:
    """The random views of the run's training."""
    encoder = run.description
    config = run.settings.views.config(run.settings.data.short_name, encoder["image_size"])
    return Views(config, size=encoder["image_size"], mean=encoder["mean"], std=encoder["std"])


def reading_for(description: Mapping[str, Any], source: str | Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """How other images are read for an encoder: as those it was trained on were, where nothing else is given."""
    trained = {name: description.get(name) for name in ("intensity", "fit")}
    reads = frozenset() if str(source) in DATA_SETS else reads_of(source)
    return {name: value for name, value in trained.items() if value is not None and name in reads} | dict(given)


def evaluation_data(
    run: RunFolder,
    on: str | None = None,
    *,
    root: str | None = None,
    seed: int = 0,
    reading: Mapping[str, Any] | None = None,
) -> EvaluationData:
    """The run's data or, for transfer, other data (`on`) brought to the encoder's channels and size.

    Args:
        reading: how the other data are read, by the names of `ReadOptions`.
    """
    source = on or run.settings.data.source
    root = root or run.settings.data.root
    if on is None and reading:
        raise ValueError(f"{next(iter(reading))}: the run's own images are read as in training; it goes with on (--on)")
    reading = run.settings.data.reading.given() if on is None else reading_for(run.description, on, reading or {})
    size, channels = int(run.description["image_size"]), len(run.description["mean"])
    try:
        train = load(source, "train", root=root, image_size=size, channels=channels, **reading)
    except ValueError as error:
        if on is not None or isinstance(error, NoSplit):
            raise
        raise ValueError(f"{error} (the data that {run.config} names; --on takes others)") from error
    notes = adapted(load(source, "train", root=root, **reading), train.shape)
    try:
        test = load(source, "test", root=root, image_size=size, channels=channels, **reading)
    except NoSplit:
        if source in DATA_SETS:
            raise
        train, test = _split(train, seed)
        notes.append(f"no test split: {_a_fifth(test, seed)} held out, though pretraining may have seen them")
    train.oversize = test.oversize = run.settings.data.oversize
    train.cache_limit = test.cache_limit = run.settings.data.cache_mb * 10**6
    if on is not None:
        notes.append("normalised as the encoder's own training data")
    return EvaluationData.of(train.cached(), test.cached(), notes)


def adapted(stored: ImageData, shape: tuple[int, int, int]) -> list[str]:
    """What is done to images as they are stored so that they have the shape (c, h, w) of an encoder's."""
    notes = []
    if shape[0] != (1 if stored.stored_in_grey else stored.shape[0]):
        notes.append("colour made grey" if shape[0] == 1 else f"grey repeated on {shape[0]} channels")
    if stored.shape[1:] != shape[1:]:
        notes.append("{}x{} pixels resized to {}x{}".format(*stored.shape[1:], *shape[1:]))
    return notes


def given_data(run: RunFolder, data: ImageData, test: ImageData | None = None, *, seed: int = 0) -> EvaluationData:
    """The images that a run was given from Python, given once more; without test images a fifth of them is held out."""
    source = run.settings.data.source
    if recorded_source(data, run.settings.data) != source:
        raise ValueError(f"data: these are other images than those of {run.path}, which was trained on {source}")
    if test is not None:
        return EvaluationData.of(data, test, [])
    train, test = _split(data, seed)
    return EvaluationData.of(train, test, [f"{_a_fifth(test, seed)} held out of pretraining's own"])


def _a_fifth(test: ImageData, seed: int) -> str:
    return f"{counted(len(test), 'image')} (a fifth, seed {seed})"


def _without_labels(data: ImageData) -> ImageData:
    data = copy.copy(data)
    data.labels = data.class_names = None
    return data


def _split(data: ImageData, seed: int) -> tuple[ImageData, ImageData]:
    """Four fifths to fit probes, and a random fifth to score them."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    cut = max(1, len(data) // 5)
    test, train = data.subset(order[:cut].sort().values), data.subset(order[cut:].sort().values)
    test.split = "test"
    return train, test
