"""An experiment: its name, cells, table and figure together in one file, known to the command line by being there.

A cell that is finished is skipped, one that was cut short is resumed, and one whose row a table in the folder of
results already has is not run at all: a table can be made in many sittings, on many machines, and continued from its
file alone.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from experiments.common import cells as measuring
from experiments.common import tables
from experiments.common.cells import UNTRAINED, Cell, Row, Split, accuracies, controls_of, identity_of, is_row_of
from experiments.common.correct import store_correct
from experiments.common.job import Job, write
from experiments.common.versions import fingerprint
from kvicreg.runs import RunFolder, load_encoder
from kvicreg.runs.stored import has_encoder
from kvicreg.training.alarm import NotFinite
from kvicreg.training.run import train

EXPERIMENTS: dict[str, type[Experiment]] = {}
MEASURED = (
    "method", "kernel", "data", "seed", "on", "fitted_on", "scored_on",
    *(f"{name}{end}" for name in tables.SCORES for end in ("", "_low", "_high")),
    "probe_all", "effective_rank", "effective_rank_share", "seconds", "threads", "precision", "failed", "config",
    "fingerprint",
)  # fmt: skip
"""What a row holds of any experiment, beside its labels and what is measured for one of them alone."""
FORMER_FORM = """
Kernel VICReg is in the form that was its default before 0.2: a spectrum for each view and the median bandwidth."""
Earlier = dict[str, list[Row]]


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
        return [row for row in self.rows if row["method"] not in UNTRAINED and "failed" not in row]

    @property
    def finished(self) -> list[Cell]:
        """The cells that have such a row."""
        done = {identity_of(row) for row in self.trained}
        return [cell for cell in self.cells if cell.identity in done]

    def unfinished(self) -> list[str]:
        """A sentence while some runs are still to come, else none; those whose data are absent are not."""
        absent = {Path(data).name for data in self.job.absent}
        cells = [cell for cell in self.cells if not {cell.settings.data.short_name, cell.config.get("target")} & absent]
        rows = [row for row in self.rows if not {row["data"], row["config"].get("target")} & absent]
        done = sum(row["method"] not in UNTRAINED for row in rows)
        late = f"{done} of {len(cells)} runs are finished; the others are not in the tables yet.\n"
        return [late] if done < len(cells) else []

    def left_out(self) -> list[str]:
        """A sentence for each data set that is not there."""
        return [f"Left out: {sentence}" for sentence in self.job.absent.values()]

    def opening(self, *, intervals: bool = True) -> list[str]:
        """What the numbers are, and what is missing: paragraphs."""
        note = [f"{tables.note(self.rows, intervals=intervals)}\n"] if self.rows else []
        return [*note, *(f"{line}\n" for line in self.left_out()), *self.unfinished()]


@dataclass(frozen=True)
class Experiment:
    """One table or figure. A subclass with a name is a command; its fields are flags, its docstring the help.

    It says which `cells` there are and makes a `table` and a `figure` of their rows; the rest is the same for all.
    """

    name: ClassVar[str] = ""
    page: ClassVar[str] = ""  # a page in docs/ that has a part which is written from its results
    split: ClassVar[Split] = "test"
    usual_seeds: ClassVar[tuple[int, ...]] = (0, 1, 2)
    columns: ClassVar[tuple[str, ...]] = ()  # what it measures of a run beside what all experiments do
    of_controls: ClassVar[bool] = True  # whether it measures that of controls too
    with_controls: ClassVar[bool] = True
    failures: ClassVar[tuple[type[Exception], ...]] = (NotFinite,)  # of training, which are results too
    former: ClassVar[bool] = False  # whether Kernel VICReg is in the form that was the default when it was run
    few: ClassVar[dict[str, Any]] = {}  # fields at smoke size, among all experiments

    def __init_subclass__(cls, name: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if name:
            cls.name = name
            EXPERIMENTS[name] = cls

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

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        """What a row has of a cell's encoder."""
        return accuracies(encoder, cell)

    @classmethod
    def for_page(cls, results: Path) -> str:
        """The part of its page, from a folder of results."""
        return tables.part_of_page(results / f"{cls.name}.json", cls.name)

    @property
    def stem(self) -> str:
        """What its files are called."""
        return self.name

    @staticmethod
    def in_short(row: Row) -> str:
        """A row's scores, while experiments run."""
        return ", ".join(f"{key} {row[key]:.4g}" for key in ("probe", "knn", "seconds"))

    def prepared(self, job: Job) -> Job:
        """The job with what the command line has left to the experiment."""
        seeds = job.seeds or ((0,) if job.budget == "smoke" else self.usual_seeds)
        return replace(job, seeds=seeds, on=self.split, former=self.former, absent={})

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
        """Run the job's share of the cells; the rows of all that are finished, after those of their controls.

        Controls are raw pixels, once for each data set, and the untrained encoder of each seed.
        """
        controls: dict[str, Cell] = {}
        for cell in cells if self.with_controls else ():
            plain = cell.settings.replace(images=None)
            for name in controls_of(plain):
                control = replace(cell, settings=plain, labels={}, variant="", control=name)
                controls.setdefault(control.identity, control)
        distinct = [*{cell.identity: cell for cell in cells}.values()]
        mine = [cell for cell in distinct[job.share[0] :: job.share[1]] if {*job.only} <= cell.words]
        earlier = self.earlier_rows(job, cells)
        self._run(job, [*controls.values(), *mine], earlier)
        finished = ((cell, self.finished(job, cell, earlier)) for cell in [*controls.values(), *cells])
        return [{**row, **cell.labels} for cell, row in finished if row is not None]

    def _run(self, job: Job, cells: Sequence[Cell], earlier: Earlier) -> None:
        """Run and measure the cells that are not finished and whose data are here."""
        todo = [cell for cell in cells if self.finished(job, cell, earlier) is None]
        todo = [cell for cell in todo if job.has(cell.target) and job.has(cell.settings.data.source)]
        started = time.perf_counter()
        for number, cell in enumerate(todo, 1):
            if self.finished(job, cell, earlier) is not None:  # by another process since
                continue
            try:
                row = self.measured(job, cell)
            except BlockingIOError as error:  # another command wants the same run, and has it
                job.say(f"{number}/{len(todo)} {cell.name} is left to another process: {error}")
                continue
            write(job.runs / cell.result, row)
            if cell.control is None:
                left = (time.perf_counter() - started) / number * (len(todo) - number) / 60
                about = ", ".join(f"{v}" for v in cell.labels.values() if isinstance(v, str | int | float) and v)
                scores = row.get("failed") or self.in_short(row)
                job.say(f"{number}/{len(todo)} {cell.name} ({about}): {scores}; about {left:.0f} min left")

    def finished(self, job: Job, cell: Cell, earlier: Earlier) -> Row | None:
        """The row of a cell that was run with these very settings, here or in an earlier table."""
        path = job.runs / cell.result
        here = [json.loads(path.read_text())] if path.is_file() else []
        rows = [row for row in [*here, *earlier.get(cell.identity, ())] if is_row_of(cell, row)]
        rows = [row for row in rows if self.is_finished(cell, row)]
        same = [row for row in rows if cell.labels and all(row.get(k) == v for k, v in cell.labels.items())]
        if same or not rows:  # of this very table
            return same[0] if same else None
        row = {k: v for k, v in rows[0].items() if k in (*MEASURED, *self.columns)}
        return row | ({"config": cell.config} if cell.control else {})

    def is_finished(self, cell: Cell, row: Row) -> bool:
        """Whether a row of a cell has all that is to be measured."""
        return "failed" in row or {*self.columns} <= {*row} or (cell.control is not None and not self.of_controls)

    def earlier_rows(self, job: Job, cells: Sequence[Cell]) -> Earlier:
        """Rows of all tables in the folder of results, its own first, with their whole config, by what they measure."""
        earlier: Earlier = {}
        for path in sorted(job.out.glob("*.json"), key=lambda path: (path.stem != self.stem, path.name)):
            table = json.loads(path.read_text())
            for row in table["rows"] if isinstance(table, dict) and "shared" in table else ():
                if "failed" not in row:
                    whole = {**row, "config": {**table["shared"], **row["config"]}}
                    earlier.setdefault(identity_of(whole), []).append(whole)
        return earlier

    def train(self, job: Job, cell: Cell, folder: Path, **more: Any) -> None:
        """Train the run of a cell, unless that is done."""
        settings, run = cell.settings.usual().replace(out=str(folder)), RunFolder(folder)
        same = run.exists and settings.agrees_with(run.settings)
        if not same or not has_encoder(folder):
            resume = same and run.checkpoint("last").is_file()
            train(settings, quiet=True, resume=resume, overwrite=not resume, **more)

    def measured(self, job: Job, cell: Cell) -> Row:
        """The row of a cell, which is trained first; a failure of training is a row too."""
        settings, folder = cell.settings, job.runs / cell.name
        row: Row = {"method": cell.control or settings.method.name}
        row |= {"kernel": None if cell.control else measuring.kernel_of(settings), "data": settings.data.short_name}
        row |= {"seed": 0 if cell.control == "raw pixels" else settings.engine.seed}
        try:
            if cell.control is None:
                self.train(job, cell, folder)
            encoder = measuring.control_encoder(cell.control, settings) if cell.control else load_encoder(folder)
            row |= self.measure(job, cell, encoder)
            store_correct((job.runs / cell.result).with_suffix(".npz"), row.pop("correct", {}))
            row |= {"seconds": 0.0} if cell.control else measuring.recorded(folder)
        except self.failures as error:
            row |= {"on": cell.on, "failed": str(error)}
        row["config"] = cell.config
        return row | {"fingerprint": fingerprint(row)}

    def write(self, result: Result) -> None:
        """Write the table and the numbers."""
        text = self.table(result)
        closing = [FORMER_FORM] if self.former and result.trained else []
        closing += [] if "seconds" in text else tables.seconds_line(result.trained)
        result.job.write(self.stem, result.rows, "\n".join([text.rstrip("\n"), *closing, ""]), **result.about)

    @classmethod
    def summary(cls) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(cls) or "").splitlines()[0]


def load_all() -> dict[str, type[Experiment]]:
    """Every experiment by name, those that others import before them; found by importing all files."""
    import experiments

    for module in pkgutil.iter_modules(experiments.__path__):
        if module.name not in ("__main__", "common"):
            import_module(f"experiments.{module.name}")
    return dict(EXPERIMENTS)
