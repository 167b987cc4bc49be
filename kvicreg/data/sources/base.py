"""`Source`: a kind of folder or file that holds images, and the settings by which it is read."""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from torch import Tensor

from kvicreg.data.images import ImageData
from kvicreg.data.intensity import intensity_rule
from kvicreg.data.pixels import Fit
from kvicreg.data.stores import NoSplit
from kvicreg.data.survey import Reader
from kvicreg.options import Options, load_plugins, option

__all__ = ["PIXELS", "Listing", "ReadOptions", "Source", "TextSource", "find_source", "only_train", "reads_of"]

PIXELS = frozenset({"pages", "intensity", "fit"})
"""The settings that image files are decoded by, whatever they lie in."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions(Options):
    """How images of one's own are read; what a kind of source does not read is refused."""

    class_level: str = option(
        "auto", "Which folders are the classes: 1 for the uppermost, 2, ..., last, none; auto says what it took."
    )
    image_column: str | None = option(None, "Column of a table that has the images or their paths; by default by name.")
    label_column: str | None = option(None, "Column of a table that has the labels; by default by name.")
    pages: Literal["first", "channels", "images"] = option(
        "first", "Of a TIFF with several pages: the first, all as channels, or each as an image."
    )
    intensity: str = option(
        "minmax",
        "Black and white of images with more than 8 bits: minmax, a percentage to cut off such as 0.5%, or 0:4095.",
    )

    fit: Fit = option(
        "crop", "How an image becomes a square: crop takes its centre, letterbox adds black bars, stretch distorts it."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_level", str(self.class_level))  # a number as well
        super().__post_init__()
        intensity_rule(self.intensity)
        if self.class_level not in ("auto", "last", "none") and not _is_level(self.class_level):
            raise ValueError(f"class_level: expected auto, last, none or a number from 1, got {self.class_level!r}")


def _is_level(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 100


class Listing(NamedTuple):
    """The images of a source: their names, their labels and the labels' names (None where there are none).

    Attributes:
        paths: the files; or names, which `read` turns into a file or its content, in any process.
        notes: sentences that people should be told.
        channels: those that the images are to be read with; None where they decide.
    """

    paths: Sequence[Path]
    labels: Tensor | None
    class_names: list[str] | None
    read: Reader | None = None
    notes: tuple[str, ...] = ()
    channels: int | None = None


class _Kind:
    """What kinds of sources have in common.

    Attributes:
        kind: what it is, for messages.
        reads: the settings of `ReadOptions` that it reads.
    """

    kind: ClassVar[str]
    reads: ClassVar[frozenset[str]] = PIXELS


class Source(_Kind, ABC):
    """A kind of file or folder. A subclass in a file of its own in this folder is all that it takes to add one; another
    package adds one by an entry point of the group "kvicreg.data.sources".

    Attributes:
        is_fallback: whether it takes what no other kind does.
    """

    is_fallback: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def accepts(cls, path: Path) -> bool:
        """Whether the file or folder `path`, which exists, is of this kind."""

    @classmethod
    @abstractmethod
    def open(cls, path: Path, split: str, options: ReadOptions) -> Listing | ImageData:
        """The images of a split: names that are decoded when they are needed, or a data set of its own.

        Raises:
            NoSplit: where the source has no images in this split.
        """


class TextSource(_Kind, ABC):
    """A kind of source that is no file or folder here: an address, a pattern, a name."""

    @classmethod
    @abstractmethod
    def accepts(cls, text: str) -> bool:
        """Whether `text` is of this kind."""

    @classmethod
    @abstractmethod
    def open(cls, text: str, split: str, options: ReadOptions) -> Listing | ImageData:
        """The images of a split, as `Source.open` gives them.

        Raises:
            NoSplit: where the source has no images in this split.
        """


def reads_of(source: str | Path) -> frozenset[str]:
    """The settings of `ReadOptions` that the kind of `source` reads; none for what is of no kind."""
    kind = _kind_of(source)
    return frozenset() if kind is None else kind.reads


def find_source(source: str | Path, options: ReadOptions) -> Callable[[str, ReadOptions], Listing | ImageData] | None:
    """What opens a split of `source`, whose kind must read every setting that is given; None for no kind."""
    kind = _kind_of(source)
    if kind is None:
        return None
    for name in options.given():
        if name not in kind.reads:
            readers = ", ".join(other.kind for other in _kinds() if name in other.reads)
            raise ValueError(f"{name}: {source} is {kind.kind}, which does not read it; it is read from {readers}")
    if issubclass(kind, Source):
        return partial(kind.open, Path(source).expanduser())
    return partial(kind.open, str(source))


def _kind_of(source: str | Path) -> type[Source] | type[TextSource] | None:
    kinds = _kinds()
    path = Path(source).expanduser()
    if path.is_dir() or path.is_file():
        return next(kind for kind in kinds if issubclass(kind, Source) and kind.accepts(path))
    return next((kind for kind in kinds if issubclass(kind, TextSource) and kind.accepts(str(source))), None)


def _kinds() -> list[type[Source] | type[TextSource]]:
    """Every kind of source, those that take what no other kind does behind the others."""
    package = import_module("kvicreg.data.sources")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    load_plugins(package.__name__)
    return [*sorted(Source.__subclasses__(), key=lambda kind: kind.is_fallback), *TextSource.__subclasses__()]


def only_train(kind: str, split: str, instead: str = "a file") -> None:
    """Raise for a split that a source without splits does not have."""
    if split != "train":
        raise NoSplit(f"split: {kind} has only 'train'; give the {split!r} images {instead} of their own")
