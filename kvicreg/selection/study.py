"""A study on disk: what all candidates share, who they are, the rungs, the criterion, and in the end the ranking.

STUDY/study.yaml        candidates, rungs and criterion
      shared.yaml       the settings that all candidates share
      study.journal     which candidate has been taken to which rung: see `board`
      runs/CANDIDATE/   a run folder for each candidate
      selection.json    the ranking
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from kvicreg.data import ImageData
from kvicreg.measures.features import recorded_source
from kvicreg.runs import RunFolder, Settings, load_settings
from kvicreg.runs.config import dump_settings
from kvicreg.runs.durations import minutes
from kvicreg.selection import halving
from kvicreg.selection.advice import read_evidence
from kvicreg.selection.candidates import Candidate, check_candidates, read_candidates
from kvicreg.selection.options import SelectOptions, steps
from kvicreg.storage import quoted, read_yaml, write_atomically, write_json
from kvicreg.training.plan import plan

__all__ = ["Study", "open_study", "start_study", "write_ranking"]

STUDY, SHARED, RANKING, RUNS = "study.yaml", "shared.yaml", "selection.json", "runs"


@dataclass(frozen=True)
class Study:
    """A study: where it is, what all candidates share, who they are, the rungs, and the criterion."""

    folder: Path
    settings: Settings
    candidates: list[Candidate]
    rungs: list[halving.Rung]
    criterion: str
    full: bool

    @property
    def names(self) -> list[str]:
        """The names of all candidates."""
        return [candidate.name for candidate in self.candidates]

    @property
    def ranking_path(self) -> Path:
        """The file of the ranking."""
        return self.folder / RANKING

    def candidate(self, name: str) -> Candidate:
        """The candidate of that name."""
        return next(candidate for candidate in self.candidates if candidate.name == name)

    def run(self, name: str) -> RunFolder:
        """A candidate's run folder."""
        return RunFolder(self.folder / RUNS / name)

    def settings_of(self, name: str) -> Settings:
        """A candidate's settings, with its run folder."""
        return self.candidate(name).of(self.settings).replace(out=str(self.run(name).path))


def start_study(
    folder: Path,
    settings: Settings,
    options: SelectOptions | None = None,
    data: ImageData | None = None,
    say: Callable[[str], None] = print,
) -> Study:
    """Write down what a new study is, so that any process can take part in it; what is left open is chosen for all."""
    options = options or SelectOptions()
    if (folder / STUDY).exists():
        way_out = f"Continue or join it with --resume {quoted(folder)}, or choose another --out"
        raise FileExistsError(f"{folder} exists. {way_out}")
    candidates = read_candidates(options.candidates)
    settings = settings.replace(out=None)
    check_candidates(candidates, settings)
    settings = settings.replace(probe_images=0)
    settings, data, _, cost, lines = plan(settings, data)
    for line in lines:
        say(line)
    settings = settings.replace(data=recorded_source(data, settings.data))
    size, budget = settings.schedule.batch_size_for(len(data)), steps(options.budget)
    if options.time is not None:
        budget = _affordable_steps(minutes(options.time), cost.seconds(size), size, len(candidates))
    full_run = settings.schedule.total_epochs * (len(data) // size)
    content = {
        "criterion": options.criterion or read_evidence()["criterion"],
        "full": options.full,
        "budget": options.time or budget,
        "rungs": [asdict(rung) for rung in halving.plan(len(candidates), budget, full_run)],
        "candidates": {candidate.name: candidate.settings for candidate in candidates},
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / SHARED, dump_settings(settings).encode())
    write_atomically(folder / STUDY, yaml.safe_dump(content, sort_keys=False).encode())
    return open_study(folder)


def open_study(folder: Path) -> Study:
    """Read what a study is."""
    path = folder / STUDY
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not a study: it has no {STUDY} (kvicreg select writes one)")
    content = read_yaml(path)
    try:
        candidates = [Candidate(name, dict(settings)) for name, settings in content["candidates"].items()]
        rungs = [halving.Rung(**rung) for rung in content["rungs"]]
        criterion, full = str(content["criterion"]), bool(content["full"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is damaged; start the study anew in another folder") from error
    return Study(folder, load_settings(folder / SHARED), candidates, rungs, criterion, full)


def write_ranking(study: Study, ranking: dict[str, Any]) -> None:
    """Write the ranking for the study and, where it has been trained to the end, for the page of its winner."""
    plain = _without_nan(ranking)
    write_json(study.ranking_path, plain)
    if ranking["winner"] is not None and study.full:
        study.run(ranking["winner"]).write_selection(plain)


def _affordable_steps(available: float, seconds: float, batch_size: int, candidates: int) -> int:
    """Steps that fit into the available minutes, measurements taken off; timed, so not the same on every machine."""
    measurements = sum(halving.sizes(candidates)) * (2.0 + 5000 / batch_size * seconds / 3)
    return max(1, int((60 * available - measurements) / (1.1 * seconds)))


def _without_nan(value: Any) -> Any:
    """The value with null for every number that is not finite: of a collapsed candidate some criteria are not."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
