"""An experiment: its name, cells, table and figure together in one file, known to the command line by being there."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from torch import nn

from experiments.common import tables
from experiments.common.cells import CONTROLS, Cell, Row, Split, accuracies, control_encoder, kernel_of, recorded
from experiments.common.job import Job, rows_of_tables
from experiments.common.versions import fingerprint
from kvicreg.runs import RunFolder, load_encoder
from kvicreg.runs.stored import has_encoder
from kvicreg.training.alarm import NotFinite
from kvicreg.training.run import train

EXPERIMENTS: dict[str, type[Experiment]] = {}


@dataclass
class Result:
    """The rows of an experiment so far, and what its JSON says beside them."""

    job: Job
    cells: Sequence[Cell]
    rows: list[Row]
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def trained(self) -> list[Row]:
        """The rows that are not of controls, and have scores."""
        return [row for row in self.rows if row["method"] not in CONTROLS and "failed" not in row]

    def unfinished(self) -> list[str]:
        """A sentence while some runs are still to come, else none."""
        done = sum(row["method"] not in CONTROLS for row in self.rows)
        late = f"{done} of {len(self.cells)} runs are finished; the others are not in the tables yet.\n"
        return [late] if done < len(self.cells) else []

    def left_out(self) -> list[str]:
        """A sentence for each data set that is not there."""
        return [f"Left out: {sentence}" for sentence in self.job.absent.values()]

    def opening(self) -> list[str]:
        """What the numbers are, and what is missing: paragraphs."""
        note = [f"{tables.note(self.rows)}\n"] if self.rows else []
        return [*note, *(f"{line}\n" for line in self.left_out()), *self.unfinished()]


class Section(NamedTuple):
    """A part of the results page."""

    title: str
    sentence: str
    stems: str = ""
    """Which result files it shows: their stem or a pattern; by default the experiment's name."""
    command: str = ""
    """What makes them; by default the experiment's name."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure. A subclass with a name is a command; its fields are flags, its docstring the help.

    It says which `cells` there are and makes a `table` and a `figure` of their rows; the rest is the same for all.
    """

    name: ClassVar[str] = ""
    place: ClassVar[int] = 0  # of its sections on the results page, counted from 1; 0 where there are none
    sections: ClassVar[tuple[Section, ...]] = ()
    page: ClassVar[str] = ""  # a page in docs/ that has a part which is written from its results
    split: ClassVar[Split] = "test"
    usual_seeds: ClassVar[tuple[int, ...]] = (0, 1, 2)
    columns: ClassVar[tuple[str, ...]] = ()  # what it measures of a run beside what all experiments do
    of_controls: ClassVar[bool] = True  # whether it measures that of controls too
    with_controls: ClassVar[bool] = True
    failures: ClassVar[tuple[type[Exception], ...]] = (NotFinite,)  # of training, which are results too
    few: ClassVar[dict[str, Any]] = {}  # fields at smoke size, among all experiments

    def __init_subclass__(cls, name: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if name:
            cls.name = name
            EXPERIMENTS[name] = cls

    # ------------------------------------------------------------------ what an experiment says

    def cells(self, job: Job) -> list[Cell]:
        """The runs it is made of."""
        raise NotImplementedError

    def about(self, result: Result) -> dict[str, Any]:
        """What the JSON says beside the rows."""
        return {}

    def table(self, result: Result) -> str:
        """The rows as Markdown."""
        if not result.rows:
            return "\n".join([*result.left_out(), ""])
        return f"{tables.summary(result.rows)}\n\n{tables.note(result.rows)}\n"

    def figure(self, result: Result) -> None:
        """Draw the rows; called where there are some."""

    @classmethod
    def for_page(cls, results: Path) -> str:
        """The part of its page, from a folder of results."""
        raise NotImplementedError

    @property
    def stem(self) -> str:
        """What its files are called."""
        return self.name

    # ------------------------------------------------------------------ what all have alike

    def prepared(self, job: Job) -> Job:
        """The job with what the command line has left to the experiment."""
        seeds = job.seeds or ((0,) if job.budget == "smoke" else self.usual_seeds)
        return replace(job, seeds=seeds, on=self.split, absent={})

    def run(self, job: Job) -> Result:
        """Run what is not finished; write the table, the numbers and the figure."""
        job = self.prepared(job)
        result = Result(job, cells := self.cells(job), self.rows(job, cells))
        result.about = self.about(result)
        self.write(result)
        if result.trained:
            self.figure(result)
        return result

    def rows(self, job: Job, cells: Sequence[Cell]) -> list[Row]:
        """The rows of the cells that are finished, those of controls first."""
        return job.rows(cells, self)

    def write(self, result: Result) -> None:
        """Write the table and the numbers."""
        result.job.write(self.stem, result.rows, self.table(result), **result.about)

    def earlier_rows(self, job: Job, cells: Sequence[Cell]) -> dict[str, list[Row]]:
        """Rows that need not be measured again, by the identity of their cells."""
        return rows_of_tables(job.out, self.stem)

    def is_finished(self, cell: Cell, row: Row) -> bool:
        """Whether a row of a cell has all that is to be measured."""
        return "failed" in row or {*self.columns} <= {*row} or (cell.control is not None and not self.of_controls)

    def train(self, job: Job, cell: Cell, folder: Path) -> None:
        """Train the run of a cell, unless that is done."""
        settings, run = cell.settings.replace(out=str(folder)), RunFolder(folder)
        same = run.exists and settings.agrees_with(run.settings)
        if not same or not has_encoder(folder):
            resume = same and run.checkpoint("last").is_file()
            train(settings, quiet=True, resume=resume, overwrite=not resume)

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        """What a row has of a cell's encoder."""
        return accuracies(encoder, cell)

    def measured(self, job: Job, cell: Cell) -> Row:
        """The row of a cell, which is trained first; a failure of training is a row too."""
        settings, folder = cell.settings, job.runs / cell.name
        row: Row = {"method": cell.control or settings.method.name}
        row |= {"kernel": None if cell.control else kernel_of(settings), "data": settings.data.short_name}
        row |= {"seed": 0 if cell.control == "raw pixels" else settings.engine.seed}
        try:
            if cell.control is None:
                self.train(job, cell, folder)
            encoder = control_encoder(cell.control, settings) if cell.control else load_encoder(folder)
            row |= self.measure(job, cell, encoder)
            row |= {"seconds": 0.0} if cell.control else recorded(folder)
        except self.failures as error:
            row |= {"on": cell.on, "failed": str(error)}
        row["config"] = cell.config
        return row | {"fingerprint": fingerprint(row)}

    @staticmethod
    def in_short(row: Row) -> str:
        """A row's scores, while experiments run."""
        return ", ".join(f"{key} {row[key]:.4g}" for key in ("probe", "knn", "seconds"))

    @classmethod
    def summary(cls) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(cls) or "").splitlines()[0]


def load_all() -> dict[str, type[Experiment]]:
    """Every experiment by name, in the order in which they use each other's results; found by importing all files."""
    import experiments

    for module in pkgutil.iter_modules(experiments.__path__):
        if module.name not in ("__main__", "common"):
            import_module(f"experiments.{module.name}")
    return dict(sorted(EXPERIMENTS.items(), key=lambda item: item[1].place))
