"""How far a command is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each part of the work, on stderr; a line for each where that is no terminal."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, TimeRemainingColumn

    from kvicreg.data.commands import bars

    console = Console(stderr=True)
    with bars(console, MofNCompleteColumn(), TimeRemainingColumn()) as show:
        begun: set[str] = set()

        def progress(what: str, done: int, total: int) -> None:
            if what not in begun and not console.is_terminal:
                print(f"{what}: {total:,} ...", file=sys.stderr, flush=True)
            begun.add(what)
            show(what, done, total)

        yield progress
