"""The board of a study: which candidate has been taken to which rung, by whom. Optuna's storage underneath.

A unit of work is a candidate on a rung, and a trial of an Optuna study, so that any number of processes, on machines
that see the study's folder, take units from the board without ever taking the same one. A unit may have several trials:
of a process that was interrupted one is left, and another is made. `optuna-dashboard` shows the study as it is.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kvicreg.storage import is_alive

__all__ = ["Board", "Unit"]

State = Literal["new", "waiting", "running", "done", "failed"]
SILENT_SECONDS = 900.0
"""A worker on another machine that has been silent for this long is taken to be gone."""
ATTEMPTS = 3
"""A unit whose process has died this many times is a candidate that can't be run."""


@dataclass(frozen=True)
class Unit:
    """A candidate on a rung, how it stands, and what was measured or why it failed."""

    candidate: str
    rung: int
    state: State
    trial: int | None = None
    measured: dict[str, Any] | None = None
    error: str | None = None


class Board:
    """The units of a study in ``FOLDER/study.journal``.

    Args:
        folder: the study's folder.
        candidates: names of all candidates.
        rungs: how many rungs there are.
    """

    def __init__(self, folder: Path, candidates: list[str], rungs: int) -> None:
        try:
            import optuna
            from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
        except ImportError as error:
            raise ImportError("choosing needs the package optuna: pip install 'kvicreg[select]'") from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        path = str(folder / "study.journal")
        self._optuna = optuna
        self._storage = optuna.storages.JournalStorage(JournalFileBackend(path, JournalFileOpenLock(path)))
        study = optuna.create_study(
            study_name="select", storage=self._storage, load_if_exists=True, direction="maximize"
        )
        self._study = self._storage.get_study_id_from_name(study.study_name)
        self._distributions = {
            "candidate": optuna.distributions.CategoricalDistribution(candidates),
            "rung": optuna.distributions.IntDistribution(0, rungs),
        }
        self._me = f"{socket.gethostname()}:{os.getpid()}"

    def units(self, rung: int, candidates: list[str]) -> list[Unit]:
        """How these candidates stand on a rung."""
        trials: dict[str, list[Any]] = {name: [] for name in candidates}
        for trial in self._storage.get_all_trials(self._study, deepcopy=False):
            if trial.params["rung"] == rung and trial.params["candidate"] in trials:
                trials[trial.params["candidate"]].append(trial)
        return [self._unit(name, rung, attempts) for name, attempts in trials.items()]

    def take(self, unit: Unit) -> int | None:
        """Take a unit that is new or waiting; returns its trial, or None when another process was faster."""
        state = self._optuna.trial.TrialState
        trial = unit.trial
        if trial is None:
            params = {"candidate": unit.candidate, "rung": unit.rung}
            template = self._optuna.trial.create_trial(
                state=state.WAITING, params=params, distributions=self._distributions
            )
            self._storage.create_new_trial(self._study, template)
            trial = self.units(unit.rung, [unit.candidate])[0].trial  # the first, should two have made one
        if trial is None or not self._storage.set_trial_state_values(trial, state.RUNNING):
            return None
        self._storage.set_trial_user_attr(trial, "worker", self._me)
        self.beat(trial)
        return trial

    def beat(self, trial: int) -> None:
        """Record that this process is still at work."""
        self._storage.set_trial_user_attr(trial, "beat", time.time())

    def done(self, trial: int, measured: dict[str, Any], value: float) -> None:
        """Write down what was measured."""
        self._storage.set_trial_user_attr(trial, "measured", measured)
        self._storage.set_trial_state_values(trial, self._optuna.trial.TrialState.COMPLETE, [value])

    def failed(self, trial: int, error: str) -> None:
        """Write down why a candidate can't be trained."""
        self._storage.set_trial_user_attr(trial, "error", error)
        self._end(trial)

    def give_back(self, trial: int) -> None:
        """Leave a unit to whoever comes next."""
        self._storage.set_trial_user_attr(trial, "given_back", True)
        self._end(trial)

    def _end(self, trial: int) -> None:
        self._storage.set_trial_state_values(trial, self._optuna.trial.TrialState.FAIL)

    def _unit(self, name: str, rung: int, trials: list[Any]) -> Unit:
        states = self._optuna.trial.TrialState
        for trial in trials:
            if trial.state == states.COMPLETE:
                return Unit(name, rung, "done", trial._trial_id, trial.user_attrs["measured"])
            if trial.state == states.FAIL and "error" in trial.user_attrs:
                return Unit(name, rung, "failed", trial._trial_id, None, trial.user_attrs["error"])
        open_trials = [trial for trial in trials if not trial.state.is_finished()]
        for trial in open_trials:
            if trial.state == states.RUNNING and self._is_gone(trial):
                self._end(trial._trial_id)
                return self._unit(name, rung, [t for t in trials if t is not trial] + [_Dead(states.FAIL)])
        died = sum("given_back" not in trial.user_attrs for trial in trials if trial.state == states.FAIL)
        if died >= ATTEMPTS:
            return Unit(name, rung, "failed", None, None, f"its process has died {died} times")
        if not open_trials:
            return Unit(name, rung, "new")
        first = open_trials[0]
        return Unit(name, rung, "running" if first.state == states.RUNNING else "waiting", first._trial_id)

    def _is_gone(self, trial: Any) -> bool:
        """Whether the process that took a trial has ended, or is elsewhere and silent."""
        worker, beat = trial.user_attrs.get("worker"), trial.user_attrs.get("beat")
        if worker is None or beat is None:
            return False  # taken this moment
        host, _, pid = worker.rpartition(":")
        if host != socket.gethostname():
            return bool(time.time() - beat > SILENT_SECONDS)
        return not is_alive(pid)


@dataclass(frozen=True)
class _Dead:
    """A trial whose process has just been found to be gone."""

    state: Any
    user_attrs: tuple[str, ...] = ()
