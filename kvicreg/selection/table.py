"""The live table of a study: where each candidate stands, with which score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from kvicreg.selection.board import Unit

if TYPE_CHECKING:
    from kvicreg.selection.study import Study

__all__ = ["LiveTable"]

SHOWN = ("rankme", "retrieval", "neighbours", "lidar", "loss")


class LiveTable:
    """A table that is redrawn on a terminal; elsewhere a line for each unit that ends.

    Args:
        criterion: the column to show first.
        quiet: show nothing.
    """

    def __init__(self, criterion: str, *, quiet: bool = False) -> None:
        self.console = Console(quiet=quiet, soft_wrap=True, highlight=False)
        self.columns = [criterion, *(name for name in SHOWN if name != criterion)]
        self.live: Live | None = None
        self.printed: set[tuple[int, str]] = set()

    def __enter__(self) -> LiveTable:
        if self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=2)
            self.live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.live is not None:
            self.live.stop()

    def show(self, study: Study, rung: int, units: list[Unit]) -> None:
        """How the units of a rung stand."""
        last = rung == len(study.rungs)
        title = "the winner's full run" if last else f"rung {rung + 1} of {len(study.rungs)}"
        if self.live is not None:
            self.live.update(self._table(title, study, rung, units))
            return
        for unit in units:
            key = (rung, unit.candidate)
            if key in self.printed or unit.state not in ("done", "failed"):
                continue
            self.printed.add(key)
            what = f"failed: {unit.error}" if unit.state == "failed" else self._line(unit)
            self.console.print(f"{title}: {unit.candidate} {what}")

    def _table(self, title: str, study: Study, rung: int, units: list[Unit]) -> Table:
        steps = "" if rung == len(study.rungs) else f", {study.rungs[rung].steps} steps"
        table = Table("candidate", "", *self.columns, title=title + steps, box=None, header_style="bold")
        for unit in units:
            table.add_row(unit.candidate, unit.state, *(_cell(unit, name) for name in self.columns))
        return table

    def _line(self, unit: Unit) -> str:
        return "  ".join(f"{name} {cell}" for name in self.columns if (cell := _cell(unit, name)) != "")


def _cell(unit: Unit, name: str) -> str:
    value = (unit.measured or {}).get("criteria", {}).get(name)
    return "" if value is None else f"{value:.4g}"
