"""Data sets on Hugging Face's hub, by name: fetched once, then read as the files that they are."""

from __future__ import annotations

from pathlib import Path

from kvicreg.data.images import ImageData
from kvicreg.data.sources.base import PIXELS, Listing, ReadOptions, TextSource, find_source
from kvicreg.storage import message_of

__all__ = ["Hub"]

PREFIX = "hf:"
_FILES = ["*.parquet", "*.zip", "*.tar", "*.npz", "*.csv", "*.jpg", "*.jpeg", "*.png", "*.webp", "*.tif", "*.tiff"]


class Hub(TextSource):
    """hf:user/name, or hf:user/name@revision; the hub's own client keeps what it has fetched."""

    kind = "a data set on Hugging Face's hub"
    reads = PIXELS | {"class_level", "image_column", "label_column"}

    @classmethod
    def accepts(cls, text: str) -> bool:
        return text.startswith(PREFIX)

    @classmethod
    def open(cls, text: str, split: str, options: ReadOptions) -> Listing | ImageData:
        opened = find_source(_single(_fetched(text)), options)
        assert opened is not None  # it is a folder or a file
        return opened(split, options)


def _single(folder: Path) -> Path:
    """The folder, or the one archive or array that is all it holds."""
    files = [path for path in folder.iterdir() if not path.name.startswith(".")]
    is_single = len(files) == 1 and files[0].suffix in (".zip", ".tar", ".npz", ".csv")
    return files[0] if is_single else folder


def _fetched(text: str) -> Path:
    """The folder that the hub's client has put the data set into."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ImportError(
            "data sets on the hub are fetched by huggingface_hub: pip install 'kvicreg[sources]'"
        ) from error
    name, _, revision = text.removeprefix(PREFIX).partition("@")
    try:
        folder = snapshot_download(name, repo_type="dataset", revision=revision or None, allow_patterns=_FILES)
    except Exception as error:  # of the network, of the hub, of the name: all are told alike
        reason = message_of(error)
        raise ValueError(
            f"data: {text} can't be had from Hugging Face's hub, which needs a network the first time ({reason}). "
            "With its parquet files in a folder here, give that folder"
        ) from error
    return Path(folder)
