"""How far an evaluation is, and how long the rest takes by the speed of what is done."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kvicreg.runs.durations import in_words

__all__ = ["Part", "Progress", "Say", "on_screen"]

Say = Callable[[str], None]
Show = Callable[[str, float, float], None]  # what is done, the share of it all that is done, seconds left

SECONDS = {"images": 2e-3, "pixels": 2e-4, "numbers": 1e-6, "map": 30.0, "training": 5e-3}
"""Of a unit of each kind of work before any is measured: an image that is encoded, a number in the rows of a probe."""
WHOLE = ("numbers", "map")
"""Kinds of work that do not tell how far they are: the clock does."""
EVERY = 20.0
"""Seconds between lines within a part."""
MOVES_EVERY = 0.5
"""Seconds between movements of a bar within a part."""


class Part(NamedTuple):
    """A part of an evaluation: units of one kind of work, and whether later runs have no need of it."""

    kind: str
    units: float
    is_shared: bool = False


class Progress:
    """Tells each part as it begins, with the time that is left, and keeps the seconds of each.

    Args:
        say: is given a line for each part that begins, and every `EVERY` seconds within one.
        runs: how many runs are evaluated one after the other.
        show: is given more often what a bar needs.
    """

    def __init__(self, say: Say = lambda _: None, *, runs: int = 1, show: Show | None = None) -> None:
        self.say, self.show, self.runs_left = say, show, runs
        self.parts: dict[str, Part] = {}
        self.seconds: dict[str, float] = {}
        self._speeds: dict[str, tuple[float, float]] = {}  # seconds and units so far, by kind
        self._done: dict[str, float] = {}  # units, by part
        self._started = self._said = self._begun = time.monotonic()
        self._name = self._title = ""

    def begin(self, run: str, parts: dict[str, Part]) -> None:
        """Begin with the next run, which has these parts."""
        self.runs_left -= 1
        self.parts, self.seconds, self._done, self._name = parts, {}, {}, ""
        self._tell(run)

    @contextmanager
    def part(self, name: str, title: str | None = None) -> Iterator[None]:
        """A part of the evaluation, while it is under way."""
        start = self._begun = time.monotonic()
        self._name, self._title = name, title or name
        self._tell(self._title)
        with self._breaking_silence():
            yield
        seconds = time.monotonic() - start
        self.seconds[name] = round(self.seconds.get(name, 0.0) + seconds, 2)
        if name in self.parts:
            kind, units, _ = self.parts[name]
            spent, done = self._speeds.get(kind, (0.0, 0.0))
            measured = self._done.get(name, units if kind in WHOLE else 0.0)  # features from a file are no work
            if measured:
                self._speeds[kind] = (spent + seconds, done + measured)
            self._done[name] = units

    @contextmanager
    def _breaking_silence(self) -> Iterator[None]:
        """Tell the part again and again, also where what is under way does not say how far it is."""
        ended = threading.Event()

        def tell() -> None:
            while not ended.wait(EVERY if self.show is None else MOVES_EVERY):
                if self.show is not None or time.monotonic() - self._said >= EVERY:
                    self._tell(self._title)

        thread = threading.Thread(target=tell, daemon=True, name="progress")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def advance(self, name: str, units: float) -> None:
        """So many units of a part have been done."""
        self._done[name] = self._done.get(name, 0.0) + units
        if self.show is not None or time.monotonic() - self._said > EVERY:
            self._tell(self._title)

    @property
    def left(self) -> float:
        """Seconds that are left, of this run and of those after it."""
        total = 0.0
        for name, part in self.parts.items():
            spent, done = self._speeds.get(part.kind, (SECONDS[part.kind], 1.0))
            per_unit, again = spent / max(done, 1e-9), 0 if part.is_shared else self.runs_left * part.units
            seconds = per_unit * (part.units - self._done.get(name, 0.0))
            if name == self._name and name not in self._done and part.kind in WHOLE:
                seconds -= time.monotonic() - self._begun
            total += max(0.0, seconds) + per_unit * again
        return total

    def _tell(self, what: str) -> None:
        left, spent = self.left, time.monotonic() - self._started
        if self.show is not None:
            self.show(what, spent / max(spent + left, 1e-9), left)
        else:
            self._said = time.monotonic()
            self.say(f"{what} ... (about {in_words(left)} left)")


@contextmanager
def on_screen(runs: int) -> Iterator[Progress]:
    """Progress on the terminal: a bar, or lines where the standard error is a file."""
    if not sys.stderr.isatty():
        yield Progress(lambda line: print(line, file=sys.stderr, flush=True), runs=runs)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns: tuple[Any, ...] = (
        BarColumn(bar_width=16),
        TextColumn("{task.percentage:>3.0f} %  {task.description}"),
        TextColumn("about {task.fields[left]} left"),
    )
    with Bar(*columns, console=Console(stderr=True), refresh_per_second=2, transient=True) as bar:
        task = bar.add_task("", total=1.0, left="")
        yield Progress(
            runs=runs,
            show=lambda what, share, left: bar.update(task, completed=share, description=what, left=in_words(left)),
        )
