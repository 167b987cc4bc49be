"""Where images come from: one small file for each kind of folder, file or archive that `--data` takes."""

from kvicreg.data.sources.base import Listing, ReadOptions, Source, find_source, reads_of
from kvicreg.data.stores import NoSplit

__all__ = ["Listing", "NoSplit", "ReadOptions", "Source", "find_source", "reads_of"]
