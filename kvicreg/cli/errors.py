"""What a command says when it fails: a sentence for a user's mistake, the traceback for one of ours."""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvicreg.checks import check_limits

__all__ = ["UsageError", "check_numbers", "command_line", "is_first_process", "tell", "usage_errors"]

command_line: list[str] = []
"""The command line being served, as results record it."""
PACKAGE = str(Path(__file__).parents[1])


class UsageError(ValueError):
    """The command line can't be understood: exit code 2."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """What is wrong with settings is wrong usage, where the command line gave them."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def check_numbers(at_least: float = 1, **numbers: float | None) -> None:
    """Refuse flags with smaller numbers than this, or with such as are not finite, before any work is done."""
    with usage_errors():
        for name, number in numbers.items():
            check_limits(name, number, {"at_least": at_least})


def is_first_process() -> bool:
    """Whether this is the only process of its training, or the first of the first machine, which speaks for all."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "NODE_RANK"))


def tell(error: Exception, command: str) -> int:
    """Print what went wrong; returns the exit code: 2 for wrong usage, else 1."""
    if os.environ.get("KVICREG_DEBUG"):
        traceback.print_exception(error)
    message = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror and error.filename:
        message = f"{error.strerror}: {error.filename}"
    elif isinstance(error, RuntimeError) and ("allocate memory" in message or "out of memory" in message):
        message = f"out of memory: {message.splitlines()[0]}"
    elif not isinstance(error, OSError | ImportError | MemoryError) and not _is_told(error):
        traceback.print_exception(error)
        message = "this is a defect of kvicreg: please report it with the lines above"
    print(message if message.startswith("kvicreg") else f"kvicreg {command}: {message}", file=sys.stderr)
    return 2 if isinstance(error, UsageError) else 1


def _is_told(error: Exception) -> bool:
    """Whether our own code raised the error by a `raise` of its own, with a message for the user."""
    if not isinstance(error, ValueError | TypeError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return True
    last = frames[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return last.filename.startswith(PACKAGE) and line.startswith("raise")
