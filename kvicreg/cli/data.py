"""kvicreg data list | get | show | pack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kvicreg.cli.errors import usage_errors
from kvicreg.data.presets import ViewOptions
from kvicreg.data.sources import ReadOptions
from kvicreg.options import Options, option

AnyOptions = TypeVar("AnyOptions", bound=Options)


def data_list(root: Path | None = None) -> str:
    """List the data sets known by name.

    Example:
        kvicreg data list

    Args:
        root: where data sets live.
    """
    from kvicreg.data.commands import list_data

    return list_data(root)


def data_get(name: str, /, root: Path | None = None) -> str:
    """Fetch a data set, verify it and unpack it.

    Example:
        kvicreg data get mnist

    Args:
        name: of the data set.
        root: where data sets live.
    """
    from kvicreg.data.commands import get_data

    return get_data(name, root)


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    """The flags of `kvicreg data show`."""

    out: str = option("contact-sheet.png", "Picture to write.")
    split: str = option("train", "train, val, test or unlabelled.")
    images: int = option(16, "How many images.", above=0)
    image_size: int | None = option(None, "Side of the images in pixels.", above=0)
    seed: int = option(0, "Seed of the views.", at_least=0)
    root: str | None = option(None, "Where data sets live.")
    channels: int | None = option(None, "Channels of the images, 1 to 32.", at_least=1, at_most=32)
    reading: ReadOptions = field(default_factory=ReadOptions)
    strengths: ViewOptions = field(default_factory=ViewOptions)


def data_show(argv: list[str]) -> str:
    """Draw images beside their two views, to see what the network sees.

    SOURCE is a data set by name, or images of your own: a folder, archive, table, array, list file or shards.

    Example:
        kvicreg data show mnist-small --out sheet.png --rotation 30
    """
    if "--help" in argv or "-h" in argv:
        return _help("data show", data_show, ShowOptions, argv)
    source, options = _parsed(ShowOptions, argv)
    from kvicreg.data.commands import show_data

    return show_data(
        source, Path(options.out), options.split, options.images, options.image_size, options.seed,
        None if options.root is None else Path(options.root), options.strengths, options.channels,
        options.reading.given(),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PackOptions(Options):
    """The flags of `kvicreg data pack`."""

    out: str = option("shards", "Folder to write.")
    shard_mb: int = option(256, "Megabytes of a shard, about.", above=0)
    root: str | None = option(None, "Where data sets live.")
    reading: ReadOptions = field(default_factory=ReadOptions)


def data_pack(argv: list[str]) -> str:
    """Write images as shards, tar files with an index, for data that one disk does not hold.

    SOURCE is whatever --data takes. All its splits are packed, image files byte for byte; the folder can lie anywhere:
    here, or in an object store (train --data s3://bucket/shards).

    Example:
        kvicreg data pack photos/ --out shards/ --shard-mb 256
    """
    if "--help" in argv or "-h" in argv:
        return _help("data pack", data_pack, PackOptions, argv)
    source, options = _parsed(PackOptions, argv)
    from kvicreg.data.commands import pack_data

    return pack_data(source, Path(options.out), options.shard_mb, options.root, options.reading.given())


def _help(command: str, function: Callable[..., str], cls: type[Options], argv: list[str]) -> str:
    from kvicreg.cli.flags import help_page

    common = [setting.name for setting in cls().settings()]
    return help_page(f"{command} SOURCE", function.__doc__ or "", cls, argv, common)


def _parsed(cls: type[AnyOptions], argv: list[str]) -> tuple[str, AnyOptions]:
    """The source that a command line names, and its flags."""
    from kvicreg.cli.flags import parse_flags

    given = parse_flags(cls, argv, positional="source")
    source = given.pop("source")
    with usage_errors():
        return source, cls.of(**given)
