"""kvicreg data list | get | show."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kvicreg.cli.errors import usage_errors
from kvicreg.data.presets import ViewOptions
from kvicreg.data.sources import ReadOptions
from kvicreg.options import Options, option


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

    SOURCE is a data set by name, or images of your own: a folder, archive, table, array or list file.

    Example:
        kvicreg data show mnist-small --out sheet.png --rotation 30
    """
    from kvicreg.cli.flags import help_page, parse_flags

    if "--help" in argv or "-h" in argv:
        common = [setting.name for setting in ShowOptions().settings()]
        return help_page("data show SOURCE", data_show.__doc__ or "", ShowOptions, argv, common)
    given = parse_flags(ShowOptions, argv, positional="source")
    source = given.pop("source")
    with usage_errors():
        options = ShowOptions.of(**given)
    from kvicreg.data.commands import show_data

    return show_data(
        source, Path(options.out), options.split, options.images, options.image_size, options.seed,
        None if options.root is None else Path(options.root), options.strengths, options.channels,
        options.reading.given(),
    )  # fmt: skip
