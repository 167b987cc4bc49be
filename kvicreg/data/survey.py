"""What the images of a source are like, seen from the headers of a few of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kvicreg.data.intensity import Intensity
from kvicreg.data.pixels import Content, Header, read_header
from kvicreg.data.stores import SourceError

__all__ = ["Survey", "survey"]

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

    def notes(self, pages: str, intensity: Intensity | None, is_measured: bool) -> list[str]:
        """What is to be told of the pixels, read with these pages and this range of values."""
        some, notes = f"of the {self.looked_at} images looked at", []
        if self.alpha:
            notes.append(f"{self.alpha} {some} have an alpha channel: they are composited over white")
        if self.pages and pages == "first":
            notes.append(f"{self.pages} {some} have several pages: only the first is read (pages: channels or images)")
        if intensity is not None:
            how = f"{'as measured on them' if is_measured else 'as given'}; values beyond are cut"
            text = f"intensity {intensity.text} is black to white, {how}"
            notes.append(f"{self.deep} {some} have more than 8 bits: {text}")
        return notes


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
