"""What zip and tar archives share: their members are laid out as the files of a folder are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from kvicreg.data.images import PathList
from kvicreg.data.sources.base import Listing, ReadOptions
from kvicreg.data.sources.layout import EXTENSIONS, SPLIT_FOLDERS, choose_split, find_classes, is_image_name, left_out
from kvicreg.data.survey import Reader

__all__ = ["MAX_MEMBER", "list_members", "plain_name"]

MAX_MEMBER = 1 << 30  # bytes of an image file, unpacked; an archive can claim any size


def plain_name(name: str) -> str:
    """A member's name as `Path` writes it: without ./ before and // within."""
    return PurePosixPath(name).as_posix()


def list_members(path: Path, names: Sequence[str], read: Reader, split: str, options: ReadOptions) -> Listing:
    """The images of an archive from the names of its files; folders are splits and classes as on disk.

    Names that lead out of the archive, and hidden ones, are left out. `read` gets names with the archive's path before.
    """
    inside = [name for name in names if not _leads_out(name)]
    visible = [name for name in inside if not any(p.startswith((".", "__MACOSX")) for p in name.split("/"))]
    images = sorted((name for name in visible if is_image_name(name)), key=lambda name: name.replace("/", "\0"))
    if not images:
        raise ValueError(f"{path}: there is no image in it (looked for {', '.join(sorted(EXTENSIONS))})")
    start = _common_start(images)
    heads = {name[len(start) :].split("/")[0] for name in images if "/" in name[len(start) :]}
    labelled = {name[len(start) :].split("/")[0] for name in images if name[len(start) :].count("/") > 1}
    chosen = choose_split(heads, labelled, split, path)
    members = _below(images, start, chosen)
    has_training = any(name in heads for name in SPLIT_FOLDERS["train"])
    training = None
    if split != "train" and has_training:
        training = [name for name, _ in _below(images, start, choose_split(heads, labelled, "train", path))]
    labels, classes, note = find_classes([name for name, _ in members], training, options.class_level, path, split)
    notes = [note, *left_out(name for name in visible if not is_image_name(name))]
    if len(inside) < len(names):
        count = len(names) - len(inside)
        notes.append(
            f"{count} file{'s are' if count > 1 else ' is'} left out, with a name that leads out of the archive"
        )
    return Listing(PathList(f"{path}/{name}" for _, name in members), labels, classes, read, tuple(notes))


def _below(images: Sequence[str], start: str, split: str) -> list[tuple[str, str]]:
    """Names from the split's folder on, and whole."""
    start += f"{split}/" if split else ""
    return [(name[len(start) :], name) for name in images if name.startswith(start)]


def _common_start(images: Sequence[str]) -> str:
    """The folders that all images lie in, unless one of them is a split."""
    splits = {name for names in SPLIT_FOLDERS.values() for name in names}
    start = ""
    while True:
        heads = {name[len(start) :].partition("/")[0] if "/" in name[len(start) :] else "" for name in images}
        if len(heads) != 1 or heads & {"", *splits}:
            return start
        start += f"{heads.pop()}/"


def _leads_out(name: str) -> bool:
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not name
