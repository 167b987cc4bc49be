"""Choose among candidates without labels: train all a little, drop the poor ones, continue the winner.

Rungs are decided when they are complete and from what is written down, so an interrupted study that is resumed, or one
that several processes share, ends in the same ranking.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import lightning.pytorch as pl

from kvicreg.data import ImageData, first_images
from kvicreg.runs import Settings
from kvicreg.selection.advice import advise_on_data, advise_on_ranking
from kvicreg.selection.board import Board, Unit
from kvicreg.selection.criteria import study_criteria
from kvicreg.selection.facts import facts
from kvicreg.selection.halving import order
from kvicreg.selection.options import SelectOptions
from kvicreg.selection.study import Study, open_study, start_study, write_ranking
from kvicreg.selection.table import LiveTable
from kvicreg.selection.trial import advance, finish, neighbours_after
from kvicreg.storage import quoted

__all__ = ["rank", "ranking_lines", "resume", "select", "work"]

POLL_SECONDS = 2.0
Say = Callable[[str], None]
Rows = dict[str, dict[str, Any]]
"""What a rung has shown of each candidate: score, criteria, standard_errors and error."""


def select(
    folder: Path,
    settings: Settings,
    options: SelectOptions | None = None,
    *,
    data: ImageData | None = None,
    quiet: bool = False,
    say: Say = print,
) -> tuple[Study, dict[str, Any]]:
    """Start a study in `folder` and take part in it to its end; returns it and its ranking.

    Args:
        settings: what all candidates share.
        options: how to choose.
        data: images of your own, in place of the settings'.
        quiet: show no table of the candidates.
        say: is given each line for the user.
    """
    study = start_study(folder, settings, options, data, say)
    return _take_part(study, study.settings.data.load() if data is None else data, quiet, say)


def resume(
    folder: Path, *, data: ImageData | None = None, quiet: bool = False, say: Say = print
) -> tuple[Study, dict[str, Any]]:
    """Continue the study in `folder`, or join the processes that are at it; returns it and its ranking."""
    study = open_study(folder)
    return _take_part(study, study.settings.data.load() if data is None else data, quiet, say)


def ranking_lines(ranking: dict[str, Any]) -> list[str]:
    """A line for each candidate, the best first."""
    return [
        f"{row['candidate']:<24} {row['steps']:>6} steps  "
        + (f"{row['score']:.4g}" if row["error"] is None else f"failed: {row['error']}")
        for row in ranking["ranking"]
    ]


def _take_part(study: Study, data: ImageData, quiet: bool, say: Say) -> tuple[Study, dict[str, Any]]:
    """Facts of the images, the study, the ranking, and advice, in this order."""
    about = facts(first_images(data, min(2000, len(data))), study.settings)
    advice = advise_on_data(about, len(data))
    rungs = ", ".join(f"{rung.candidates} for {rung.steps} steps" for rung in study.rungs)
    for line in advice:
        say(line)
    say(f"Candidates: {rungs}; ranked by {study.criterion}, which looks at no label. Another process may join in.")
    try:
        with _interrupted_by_sigterm():
            ranking = work(study, data=data, quiet=quiet)
    except KeyboardInterrupt:
        say(f"Stopped. Continue with: kvicreg select --resume {quoted(study.folder)}")
        raise
    ranking |= {"data": data.name, "images": len(data), "facts": about}
    ranking |= {"rungs": [asdict(rung) for rung in study.rungs]}
    ranking["advice"] = advise_on_ranking(ranking) + advice
    write_ranking(study, ranking)
    return study, ranking


@contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM interrupt like ctrl-C; Lightning alone would end the candidate at hand and go on to the next."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def work(study: Study, *, data: ImageData | None = None, quiet: bool = False) -> dict[str, Any]:
    """Take part in a study until its ranking is known and, where wanted, its winner trained; returns the ranking."""
    data = study.settings.data.load() if data is None else data
    board = Board(study.folder, study.names, len(study.rungs))
    with LiveTable(study.criterion, quiet=quiet) as table:
        names = study.names
        history: list[Rows] = []
        for number, rung in enumerate(study.rungs):
            units = _complete(study, board, number, names, data, table)
            history.append(_judge(study, units, rung.steps))
            if number + 1 < len(study.rungs):
                names = _best_first(history[-1])[: study.rungs[number + 1].candidates]
        ranking = rank(study, history)
        winner = ranking["winner"]
        if study.full and winner is not None:
            (unit,) = _complete(study, board, len(study.rungs), [winner], data, table)
            ranking["full_run_error"] = unit.error
    return ranking


def rank(study: Study, history: Sequence[Rows]) -> dict[str, Any]:
    """All candidates, the best first: by how far they came, then by the criterion on their last rung."""
    rows: dict[str, dict[str, Any]] = {}
    for rung, judged in reversed(list(zip(study.rungs, history, strict=True))):
        for name in _best_first(judged):
            settings = study.candidate(name).settings
            rows.setdefault(name, {"candidate": name, "settings": settings, "steps": rung.steps, **judged[name]})
    ordered = sorted(rows.values(), key=lambda row: row["error"] is not None)  # stable: those that failed come last
    winner = ordered[0]["candidate"] if ordered and ordered[0]["error"] is None else None
    return {"criterion": study.criterion, "winner": winner, "ranking": ordered}


def _best_first(judged: Rows) -> list[str]:
    return order({name: row["score"] for name, row in judged.items()})


def _judge(study: Study, units: list[Unit], steps: int) -> Rows:
    """Every candidate of a complete rung: its score, all criteria, their standard errors, or its error."""
    measured = {unit.candidate: unit.measured for unit in units if unit.measured is not None}
    values = study_criteria(measured, {name: neighbours_after(study.run(name), steps) for name in measured})
    rows: Rows = {}
    for unit in units:
        if unit.measured is None:
            rows[unit.candidate] = {"score": None, "criteria": {}, "standard_errors": {}, "error": unit.error}
        else:
            criteria = values[unit.candidate]
            row = {"score": criteria[study.criterion], "criteria": criteria, "error": None}
            rows[unit.candidate] = row | {"standard_errors": unit.measured["standard_errors"]}
    return rows


def _complete(study: Study, board: Board, rung: int, names: list[str], data: ImageData, table: LiveTable) -> list[Unit]:
    """Work on a rung, with whoever else does, until all of its units are done or have failed."""
    while True:
        units = board.units(rung, names)
        table.show(study, rung, units)
        if all(unit.state in ("done", "failed") for unit in units):
            return units
        free = [unit for unit in units if unit.state in ("new", "waiting")]
        trial = board.take(free[0]) if free else None
        if trial is None:
            time.sleep(POLL_SECONDS if not free else 0.1)
            continue
        _run(study, board, free[0], trial, data)


def _run(study: Study, board: Board, unit: Unit, trial: int, data: ImageData) -> None:
    """Do the work of a unit and write down how it ended."""
    try:
        settings = study.settings_of(unit.candidate)
        if unit.rung == len(study.rungs):
            finish(settings, data=data)
            board.done(trial, {}, 0.0)
            return
        measured = advance(settings, study.rungs[unit.rung].steps, data=data, callbacks=[_Beat(board, trial)])
        board.done(trial, measured, float(measured["criteria"].get(study.criterion, measured["criteria"]["rankme"])))
    except BlockingIOError:  # another process still works in the run folder
        board.give_back(trial)
        time.sleep(POLL_SECONDS)
    except (KeyboardInterrupt, OSError):  # a full disk, say: the machine's, and no fault of the candidate
        with suppress(OSError):
            board.give_back(trial)
        raise
    except Exception as error:  # whatever it is, it is this candidate's
        board.failed(trial, f"{type(error).__name__}: {error}")


class _Beat(pl.Callback):
    """Tells the board now and then that the process is alive."""

    def __init__(self, board: Board, trial: int, every: float = 30.0) -> None:
        self.board, self.trial, self.every, self.last = board, trial, every, time.monotonic()

    def on_train_batch_end(self, *_: Any) -> None:
        if time.monotonic() - self.last > self.every:
            self.board.beat(self.trial)
            self.last = time.monotonic()
