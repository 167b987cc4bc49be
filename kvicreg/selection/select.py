"""Choose among candidates without labels: train all a little, drop the poor ones, continue the winner.

Rungs are decided when they are complete and from what is written down, so an interrupted study that is resumed, or one
that several processes share, ends in the same ranking.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import yaml

from kvicreg.data import ImageData
from kvicreg.selection.board import Board, Unit
from kvicreg.selection.candidates import DEFAULT, Candidate, read_candidates
from kvicreg.selection.criteria import CRITERIA
from kvicreg.selection.evidence import read_evidence
from kvicreg.selection.flags import minutes_of, steps_of
from kvicreg.selection.halving import Rung, order, plan, sizes
from kvicreg.selection.scores import study_criteria
from kvicreg.selection.table import LiveTable
from kvicreg.selection.trial import advance, finish, neighbours_of
from kvicreg.storage import write_atomically
from kvicreg.training.build import build_data
from kvicreg.training.config import TrainConfig, dump_config, load_config
from kvicreg.training.estimate import timed

__all__ = ["Plan", "open_study", "ranking", "start_study", "work", "write_selection"]

POLL_SECONDS = 2.0


@dataclass(frozen=True)
class Plan:
    """A study: where, what all candidates share, who they are, the rungs, and the criterion."""

    folder: Path
    config: TrainConfig
    candidates: list[Candidate]
    rungs: list[Rung]
    criterion: str
    full: bool

    def config_of(self, name: str) -> TrainConfig:
        """A candidate's settings, with its run folder."""
        candidate = next(c for c in self.candidates if c.name == name)
        return replace(candidate.of(self.config), out=str(self.folder / "runs" / name))


def start_study(folder: Path, config: TrainConfig, choice: dict[str, Any], data: ImageData | None = None) -> Plan:
    """Write down what a new study is, so that any process can take part in it."""
    if (folder / "study.yaml").exists():
        raise FileExistsError(f"{folder} exists. Continue or join it with --resume {folder}, or choose another --out")
    criterion = choice.get("criterion") or read_evidence()["criterion"]
    if criterion not in CRITERIA:
        raise ValueError(f"criterion: expected one of {', '.join(CRITERIA)}, got {criterion!r}")
    candidates = read_candidates(choice["candidates"]) if choice.get("candidates") else list(DEFAULT)
    if not all(candidate.of(config).uses_kernel for candidate in candidates):
        raise ValueError(f"the method {config.method} has no kernel to choose; choose for kernel-vicreg")
    config = replace(config, out=None, probe_images=0)
    data = build_data(config) if data is None else data
    full = config.epochs * (len(data) // config.batch_size)
    if choice.get("time"):
        budget = _affordable(minutes_of(choice["time"]), config, len(candidates))
    else:
        budget = steps_of(choice["budget"])
    rungs = plan(len(candidates), budget, full)
    content = {
        "criterion": criterion,
        "full": bool(choice.get("full", True)),
        "budget": choice["time"] if choice.get("time") else budget,
        "rungs": [{"steps": rung.steps, "candidates": rung.candidates} for rung in rungs],
        "candidates": {candidate.name: candidate.settings for candidate in candidates},
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "shared.yaml", dump_config(config).encode())
    write_atomically(folder / "study.yaml", yaml.safe_dump(content, sort_keys=False).encode())
    return open_study(folder)


def open_study(folder: Path) -> Plan:
    """Read what a study is."""
    if not (folder / "study.yaml").is_file():
        raise FileNotFoundError(f"{folder} is not a study: it has no study.yaml (kvicreg select writes one)")
    try:
        content = yaml.safe_load((folder / "study.yaml").read_text())
        candidates = [Candidate(name, settings) for name, settings in content["candidates"].items()]
        rungs = [Rung(**rung) for rung in content["rungs"]]
        criterion, full = str(content["criterion"]), bool(content["full"])
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / 'study.yaml'} is damaged; start the study anew in another folder") from error
    return Plan(folder, load_config(folder / "shared.yaml"), candidates, rungs, criterion, full)


def work(study: Plan, *, data: ImageData | None = None, quiet: bool = False) -> dict[str, Any]:
    """Take part in a study until its ranking is known and, if asked for, its winner trained; returns the ranking."""
    data = build_data(study.config) if data is None else data
    board = Board(study.folder, [candidate.name for candidate in study.candidates], len(study.rungs))
    with LiveTable(study.criterion, quiet=quiet) as table:
        left = [candidate.name for candidate in study.candidates]
        history: list[dict[str, dict[str, Any]]] = []
        for number, rung in enumerate(study.rungs):
            units = _complete(study, board, number, left, data, table)
            history.append(_judged(study, units, rung.steps))
            best = order({name: row["score"] for name, row in history[-1].items()})
            if number + 1 < len(study.rungs):
                left = best[: study.rungs[number + 1].candidates]
        found = ranking(study, history)
        if study.full and found["winner"] is not None:
            found["full_run_error"] = _complete(study, board, len(study.rungs), [found["winner"]], data, table)[0].error
    return found


def ranking(study: Plan, history: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """All candidates, the best first: by how far they came, then by the criterion on their last rung."""
    rows: list[dict[str, Any]] = []
    for number in reversed(range(len(history))):
        judged, known = history[number], {row["candidate"] for row in rows}
        for name in order({name: row["score"] for name, row in judged.items()}):
            if name not in known:
                settings = next(c.settings for c in study.candidates if c.name == name)
                about = {"candidate": name, "settings": settings, "steps": study.rungs[number].steps}
                rows.append({**about, **judged[name]})
    rows.sort(key=lambda row: row["error"] is not None)  # stable: those that failed come last
    winner = rows[0]["candidate"] if rows and rows[0]["error"] is None else None
    return {"criterion": study.criterion, "winner": winner, "ranking": rows}


def _judged(study: Plan, units: list[Unit], steps: int) -> dict[str, dict[str, Any]]:
    """Every candidate of a complete rung: its score, all criteria, their standard errors, or its error."""
    measured = {unit.candidate: unit.measured for unit in units if unit.measured is not None}
    folders = {name: Path(str(study.config_of(name).out)) for name in measured}
    values = study_criteria(measured, {name: neighbours_of(folder, steps) for name, folder in folders.items()})
    found: dict[str, dict[str, Any]] = {}
    for unit in units:
        if unit.measured is None:
            found[unit.candidate] = {"score": None, "criteria": {}, "standard_errors": {}, "error": unit.error}
        else:
            criteria = values[unit.candidate]
            row = {"score": criteria[study.criterion], "criteria": criteria, "error": None}
            found[unit.candidate] = row | {"standard_errors": unit.measured["standard_errors"]}
    return found


def _complete(study: Plan, board: Board, rung: int, names: list[str], data: ImageData, table: LiveTable) -> list[Unit]:
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


def _run(study: Plan, board: Board, unit: Unit, trial: int, data: ImageData) -> None:
    config = study.config_of(unit.candidate)
    try:
        if unit.rung == len(study.rungs):
            finish(config, data=data)
            board.done(trial, {}, 0.0)
            return
        measured = advance(config, study.rungs[unit.rung].steps, data=data, callbacks=[_Beat(board, trial)])
        board.done(trial, measured, float(measured["criteria"].get(study.criterion, measured["criteria"]["rankme"])))
    except BlockingIOError:  # another process still holds the run folder
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


def _affordable(minutes: float, config: TrainConfig, candidates: int) -> int:
    """Steps that fit into a time, measurements taken off; from a few timed steps, so not the same on every machine."""
    seconds = timed(config).seconds
    measurements = sum(sizes(candidates)) * (2.0 + 5000 / config.batch_size * seconds / 3)
    return max(1, int((60 * minutes - measurements) / (1.1 * seconds)))


def write_selection(study: Plan, found: dict[str, Any]) -> Path:
    """selection.json, for the study and for the page of its winner."""
    path = study.folder / "selection.json"
    text = json.dumps(found, indent=1, allow_nan=False).encode() + b"\n"
    write_atomically(path, text)
    if found["winner"] is not None and study.full:
        write_atomically(Path(str(study.config_of(found["winner"]).out)) / "selection.json", text)
    return path
