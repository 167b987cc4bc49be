"""What the images of a source are like, seen from the headers of a few of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kvicreg.data.pixels import Content, Header, read_header
from kvicreg.data.stores import SourceError

__all__ = ["Survey", "common_size", "survey"]

_LOOKED_AT = 64
Reader = Callable[[Path], Content]  # from the name of an image to its file, or to what would be in its file


class Survey(NamedTuple):
    """Of up to 64 evenly spaced images that can be read.

    Attributes:
        size: the median shorter side.
        channels: those of most images, without alpha.
        deep: how many have more than 8 bits.
        alpha, pages: how many have an alpha channel, or more than one page.
    """

    looked_at: int
    size: int
    channels: int
    deep: int
    alpha: int
    pages: int
    most_pages: int


def survey(paths: Sequence[Path], read: Reader | None = None) -> Survey | None:
    """Look at the headers of some images; None if none can be read."""
    headers: list[Header] = []
    for path in paths[:: max(1, len(paths) // _LOOKED_AT)]:
        try:
            headers.append(read_header(path if read is None else read(path)))
        except (ImportError, SourceError):
            raise
        except Exception:  # a bad file is met again, and told, when it is decoded
            continue
    if not headers:
        return None
    return Survey(
        looked_at=len(headers),
        size=sorted(header.side for header in headers)[len(headers) // 2],
        channels=Counter(header.channels for header in headers).most_common(1)[0][0],
        deep=sum(header.deep for header in headers),
        alpha=sum(header.alpha for header in headers),
        pages=sum(header.pages > 1 for header in headers),
        most_pages=max(header.pages for header in headers),
    )


def common_size(paths: Sequence[Path], largest: int = 224) -> int:
    """The median shorter side of up to 64 evenly spaced files, and at most `largest`."""
    looks = survey(paths)
    return largest if looks is None else min(largest, looks.size)
