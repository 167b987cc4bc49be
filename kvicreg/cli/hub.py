"""kvicreg push, kvicreg pull."""

from __future__ import annotations

from pathlib import Path

from kvicreg.storage import quoted


def push(run: Path, name: str, /, public: bool = False) -> str:
    """Put a run's encoder on Hugging Face's hub.

    Example:
        kvicreg push runs/photos my-name/photo-encoder

    Args:
        run: run folder.
        name: USER/NAME on the hub; `hf auth login` has made this machine known there.
        public: for everybody to see.
    """
    from kvicreg.runs.hub import push as write

    return f"On the hub: {write(run, name, private=not public)}; kvicreg pull {name} brings it back"


def pull(name: str, /, out: Path, revision: str | None = None) -> str:
    """Fetch an encoder from Hugging Face's hub into a folder.

    Example:
        kvicreg pull my-name/photo-encoder --out runs/pulled

    Args:
        name: USER/NAME on the hub.
        out: folder to write.
        revision: branch, tag or commit.
    """
    from kvicreg.runs.hub import pull as fetch

    folder = fetch(name, out, revision=revision)
    return f"{folder}: kvicreg embed {quoted(folder)} images/ uses it, and kvicreg.load_encoder({str(folder)!r})"
