"""Experiments whose runs count only together: their rows are written when all are there, into a folder of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from experiments.common.cells import Cell, Row
from experiments.common.experiment import Earlier, Experiment, Result
from experiments.common.job import Job, write

Pairs = list[tuple[Cell, Row]]


class FolderExperiment(Experiment):
    """An experiment with result files OUT/NAME/FILE.json, each with the settings its runs share and a line for each."""

    with_controls = False
    shared: ClassVar[tuple[str, ...]]  # settings

    def file_of(self, cell: Cell) -> str:
        """The stem of the file that has a cell's row."""
        return self.name

    def settings_of(self, cell: Cell) -> dict[str, Any]:
        """The settings that a file names."""
        return {key: cell.config[key] for key in self.shared}

    def content(self, job: Job, pairs: Pairs) -> dict[str, Any]:
        """What a file has, its rows among it."""
        raise NotImplementedError

    @staticmethod
    def line(cell: Cell, row: Row, **scores: Any) -> Row:
        """A row as a file has it."""
        outcome = {"error": row["failed"]} if "failed" in row else scores
        version = {key: row[key] for key in ("fingerprint",) if key in row}
        return {**cell.labels, "seed": cell.settings.engine.seed, **outcome, **version}

    def earlier_rows(self, job: Job, cells: Sequence[Cell]) -> Earlier:
        """The rows of the seeds that a file has whole, with the same settings and labels."""
        earlier: Earlier = {}
        for name, seed in dict.fromkeys((self.file_of(cell), cell.settings.engine.seed) for cell in cells):
            path = job.out / self.name / f"{name}.json"
            file = json.loads(path.read_text()) if path.is_file() else {"settings": None, "rows": []}
            trial = [cell for cell in cells if (self.file_of(cell), cell.settings.engine.seed) == (name, seed)]
            of = {str([row[k] for k in trial[0].labels]): row for row in file["rows"] if row["seed"] == seed}
            keys = {str([*cell.labels.values()]): cell for cell in trial}
            if {*of} >= {*keys} and file["settings"] == self.settings_of(trial[0]):
                for key, cell in keys.items():
                    about = {"failed": of[key]["error"]} if "error" in of[key] else {}
                    earlier[cell.identity] = [{**of[key], **about, "method": "", "on": cell.on, "config": cell.config}]
        return earlier

    def write(self, result: Result) -> None:
        """Write the files that have something new, once all runs are finished."""
        job = result.job
        if len(result.rows) < len(result.cells):
            job.say("\n".join(result.left_out() + result.unfinished()))
            return
        files: dict[str, Pairs] = {}
        for cell, row in zip(result.cells, result.rows, strict=True):
            files.setdefault(self.file_of(cell), []).append((cell, row))
        for name, pairs in files.items():
            if any("seconds" in row for _, row in pairs):  # measured, and not from the file
                write(job.out / self.name / f"{name}.json", self.content(job, pairs))
        job.say(self.for_page(job.out))


def in_words(settings: dict[str, Any]) -> str:
    """The settings that all share, as a table's note has them."""
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items())
