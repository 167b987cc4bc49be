"""Files that are whole or absent, and folders that one process works on at a time. Needs the standard library alone."""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOCK = ".lock"
LARGEST_YAML, LARGEST_TABLE = 1 << 20, 10_000


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file to write to; it takes the place of `path` when the block ends well, else it is removed.

    A stop at any moment leaves the old content or the new, never a part. What a killed process has left behind for
    the same path is removed first.
    """
    path = Path(path)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if not is_alive(leftover.name.removesuffix(".tmp").rpartition(".")[2]):
            leftover.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.filename in (None, str(temporary)):  # a failed write does not say which file it was
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a stop at any moment leaves the old content or the new, never a part."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON, so that a stop at any moment leaves the old content or the new, never a part."""
    write_atomically(path, json.dumps(content, indent=2).encode() + b"\n")


@contextmanager
def working_on(folder: Path, what: str) -> Iterator[None]:
    """Hold the folder for this process; a second process is told who has it.

    The lock is the operating system's and ends with the process, however it ends; the file only says who it was.

    Args:
        folder: an existing folder.
        what: the work, in words for the other process, such as "kvicreg train".

    Raises:
        BlockingIOError: while another process works on the folder.
    """
    if sys.platform == "win32":  # which has no such locks
        yield
        return
    import fcntl

    path = Path(folder) / LOCK
    while True:
        file = open(path, "a+")  # noqa: SIM115 - closed below
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of the process, so not inherited by its workers
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise BlockingIOError(f"{folder} is in use by {holder}; wait for it, or work in another folder") from error
        if path.exists() and os.fstat(file.fileno()).st_ino == path.stat().st_ino:
            break
        file.close()  # its holder removed it between our opening and locking: take the new one
    try:
        file.truncate(0)
        file.write(f"{what}, process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


def is_alive(pid: str) -> bool:
    """Whether there is a process of this number on this machine."""
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def read_yaml(path: Path) -> Any:
    """The content of a YAML file: plain values alone, and no more of them than a file of settings has."""
    import yaml

    class Loader(yaml.SafeLoader):
        def flatten_mapping(self, node: Any) -> None:
            super().flatten_mapping(node)
            if len(node.value) > LARGEST_TABLE:  # parts merged into parts double at every step
                raise yaml.constructor.ConstructorError(None, None, "its merged tables grow too large", node.start_mark)

    try:
        if path.stat().st_size > LARGEST_YAML:
            raise ValueError(f"it has more than {LARGEST_YAML:,} bytes")
        loader = Loader(path.read_text(encoding="utf-8"))
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged, or not valid YAML: {' '.join(str(error).split())[:500]}") from error


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an npz file, without pickles."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except Exception as error:  # numpy, zipfile and zlib raise whatever the damage makes them stumble over
        raise ValueError(f"{path} is damaged ({error}): delete it and make it again") from error


def message_of(error: BaseException) -> str:
    """What an error says, on one line and short enough for a sentence; its kind where it says nothing."""
    text = re.sub(r" <[^<>]* object at 0x[0-9a-fA-F]+>", "", str(error))
    return " ".join(text.split())[:200] or type(error).__name__


def counted(number: int, noun: str) -> str:
    """A number of things, in words.

    Example:
        >>> counted(1, "image"), counted(2000, "image"), counted(0, "class")
        ('1 image', '2,000 images', '0 classes')
    """
    return f"{number:,} {noun if number == 1 else noun + ('es' if noun.endswith(('s', 'x')) else 's')}"


def quoted(word: object) -> str:
    """A word of a command, as a shell takes it; a home folder that is written as ~ is still found.

    Example:
        >>> quoted("runs/first"), quoted("my runs/first"), quoted("~/my runs")
        ('runs/first', "'my runs/first'", "~/'my runs'")
    """
    text = str(word)
    return f"~/{shlex.quote(text[2:])}" if text.startswith("~/") else shlex.quote(text)


def without_home(value: Any) -> Any:
    """A text, or all texts in lists and dictionaries, with home folders written as ~: for what people pass on."""
    if isinstance(value, dict):
        return {without_home(key): without_home(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_home(item) for item in value]
    if not isinstance(value, str):
        return value
    text = value
    for home in {str(Path.home()), str(Path.home().resolve())}:
        if len(home) > 1:
            text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
    return re.sub(r"(?<![\w.~])/(?:home|Users)/[^/\s'\"]+", "~", text)  # somebody else's, where a run came from
