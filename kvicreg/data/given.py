"""Images that were given from Python: how a run's config names them, so that no other data are taken for them."""

from __future__ import annotations

from kvicreg.data.images import ImageData

__all__ = ["given_name", "given_source", "refuse_given"]

PREFIX = "python:"


def given_source(data: ImageData, fingerprint: str) -> str:
    """What a config says of images that were given from Python: their name, number, shape and a fingerprint.

    Example:
        >>> given_source(ArrayData(torch.zeros(10, 1, 8, 8, dtype=torch.uint8), name="mine"), "3fa9")
        'python:mine (10 images 1x8x8, fingerprint 3fa9)'
    """
    c, h, w = data.shape
    return f"{PREFIX}{data.name} ({len(data)} images {c}x{h}x{w}, fingerprint {fingerprint})"


def given_name(source: str) -> str | None:
    """The name of images that were given from Python, or None for any other source."""
    return source.removeprefix(PREFIX).rpartition(" (")[0] if source.startswith(PREFIX) else None


def refuse_given(source: str) -> None:
    """Ask for images that were given from Python: nothing here can load them."""
    if given_name(source) is not None:
        raise ValueError(
            f"the images of this run were given from Python ({source.removeprefix(PREFIX)}): pass data=..., from Python"
        )
