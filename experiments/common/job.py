"""A job: how much of an experiment to run, where, and which share of it on this machine.

A cell that is finished is skipped, one that was cut short is resumed, and one whose row a table in the folder of
results already has is not run at all: a table can be made in many sittings, on many machines, and continued from its
file alone.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from experiments.common import tables
from experiments.common.cells import CONTROLS, PROBE_IMAGES, Cell, Row, Split, identity_of, is_row_of
from experiments.common.stand_ins import write_stand_ins
from kvicreg.data import load
from kvicreg.runs import Settings
from kvicreg.runs.config import recipe
from kvicreg.storage import write_atomically

if TYPE_CHECKING:
    from experiments.common.experiment import Experiment

Budget = Literal["smoke", "small", "full"]
SETTINGS: dict[Budget, dict[str, Any]] = {
    "smoke": {
        "images": 64, "holdout": 32, "image_size": 16, "width": 0.25, "pool": 1, "projector_layers": 2,
        "projector_hidden": 32, "projector_outputs": 32, "epochs": 2, "batch_size": 64, "spectrum_images": 32,
        "workers": 0,
    },
    "small": {
        "images": 10_000, "holdout": 5_000, "width": 0.5, "pool": 2, "projector_layers": 3, "projector_hidden": 512,
        "projector_outputs": 512, "epochs": 6, "batch_size": 256, "precision": "auto",
    },
    "full": {
        "holdout": 5_000, "encoder": "resnet18", "projector_layers": 3, "projector_hidden": 2048,
        "projector_outputs": 2048, "epochs": 200, "batch_size": 256, "warmup_epochs": 10, "optimizer": "adamw",
        "weight_decay": 1e-4, "precision": "auto",
    },
}  # fmt: skip
"""What all cells of a budget share: seconds a cell, half a minute a cell on one core, and hours on a GPU."""


SCORES = tuple(f"{name}{end}" for name in ("probe", "probe_few", "knn") for end in ("", "_low", "_high"))
MEASURED = (
    "method", "kernel", "data", "seed", "on", "fitted_on", "scored_on", *SCORES, "effective_rank",
    "effective_rank_share", "seconds", "threads", "precision", "failed", "config",
    "fingerprint",
)  # fmt: skip
"""What a row holds of any experiment, beside its labels and what is measured for one of them alone."""


def rows_of_tables(folder: Path, first: str = "") -> dict[str, list[Row]]:
    """The rows of all tables in a folder of results, with their whole config, by what they measure.

    Those of the table `first` come before the others.
    """
    earlier: dict[str, list[Row]] = {}
    for path in sorted(folder.glob("*.json"), key=lambda path: (path.stem != first, path.name)):
        table = json.loads(path.read_text())
        if isinstance(table, dict) and "shared" in table:
            for row in table["rows"]:
                if "failed" not in row:
                    whole = {**row, "config": {**table["shared"], **row["config"]}}
                    earlier.setdefault(identity_of(whole), []).append(whole)
    return earlier


def _say(line: str) -> None:
    print(line, flush=True)


@dataclass(frozen=True)
class Job:
    """What the command line says of any experiment."""

    budget: Budget = "small"
    """smoke (made-up images, seconds), small (two cores, hours) or full (the paper's setting, GPUs)."""
    seeds: tuple[int, ...] = ()
    """One run of every cell for each; by default the experiment's own, at smoke size 0."""
    part: str = "1/1"
    """K/N: run the K-th of N shares, for machines that share the folder of runs."""
    only: tuple[str, ...] = ()
    """Run only the cells that have all these words: data, method, kernel, or a label in the table. The table still has
    every cell that is finished."""
    runs: Path = Path("runs/cells")
    """Folder of the run folders."""
    out: Path = Path("runs/results")
    """Folder to write tables, figures and numbers to."""
    data_root: str | None = None
    """Where data sets live."""
    on: Annotated[Split, tyro.conf.Suppress] = "test"
    say: Annotated[Callable[[str], None], tyro.conf.Suppress] = field(default=_say, compare=False)
    absent: Annotated[dict[str, str], tyro.conf.Suppress] = field(default_factory=dict, compare=False)
    """Data sets that were wanted and are not there, each with what to do."""

    @property
    def share(self) -> tuple[int, int]:
        """The part as (k, n), the k-th of n counted from 0."""
        match = re.fullmatch(r"(\d+)/(\d+)", self.part)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"part: expected K/N with K from 1 to N, such as 1/2, got {self.part!r}")
        return int(match[1]) - 1, int(match[2])

    @property
    def made_up(self) -> bool:
        """Whether the images are made up."""
        return self.budget == "smoke" and self.data_root is None

    @property
    def root(self) -> str | None:
        """Where the data are; at smoke size, unless told, made-up images in the official formats."""
        return str(write_stand_ins(self.runs / "stand-ins")) if self.made_up else self.data_root

    @property
    def narrow(self) -> dict[str, Any]:
        """Settings where many runs are compared with each other only: a narrower encoder, where time is short."""
        return {"width": 0.25} if self.budget == "small" else {}

    def settings(self, **settings: Any) -> Settings:
        """The budget's settings with these on top."""
        return Settings.of(**{**self._recording(), **SETTINGS[self.budget], **settings})

    def _recording(self) -> dict[str, Any]:
        return {"data_root": self.root, "probe_images": 0, "log_every": 100}

    def cell(
        self,
        labels: dict[str, Any] | None = None,
        *,
        target: str | None = None,
        base: str | None = None,
        variant: str = "",
        **settings: Any,
    ) -> Cell:
        """A cell of the budget's settings, or of the recipe `base` in their place, with these on top."""
        if base is not None:
            whole = Settings.of(**{**recipe(base), **self._recording(), **settings})
        else:
            whole = self.settings(**settings)
        labelled = 10**9 if self.budget == "full" else PROBE_IMAGES
        return Cell(whole, labels or {}, self.on, labelled, target, variant)

    def rows(self, cells: Sequence[Cell], experiment: Experiment) -> list[Row]:
        """Run this job's share of the cells; the rows of all that are finished, after those of their controls.

        Controls are raw pixels, once for each data set, and the untrained encoder of each seed.
        """
        controls: dict[str, Cell] = {}
        for cell in cells:
            plain = cell.settings.replace(images=None)
            for name in CONTROLS if experiment.with_controls else ():
                control = replace(cell, settings=plain, labels={}, variant="", control=name)
                controls.setdefault(control.identity, control)
        earlier = experiment.earlier_rows(self, cells)
        self._run([*controls.values()], experiment, earlier)
        distinct = [*{cell.identity: cell for cell in cells}.values()]
        mine = [cell for cell in distinct[self.share[0] :: self.share[1]] if {*self.only} <= cell.words]
        self._run(mine, experiment, earlier)
        finished = ((cell, self.finished(cell, experiment, earlier)) for cell in [*controls.values(), *cells])
        return [{**row, **cell.labels} for cell, row in finished if row is not None]

    def finished(self, cell: Cell, experiment: Experiment, earlier: dict[str, list[Row]]) -> Row | None:
        """The row of a cell that was run with these very settings, here or in an earlier table."""
        path = self.runs / cell.result
        here = [json.loads(path.read_text())] if path.is_file() else []
        rows = [row for row in [*here, *earlier.get(cell.identity, ())] if is_row_of(cell, row)]
        rows = [row for row in rows if experiment.is_finished(cell, row)]
        same = [row for row in rows if cell.labels and all(row.get(k) == v for k, v in cell.labels.items())]
        if same:  # of this very table
            return same[0]
        if not rows:
            return None
        row = {k: v for k, v in rows[0].items() if k in (*MEASURED, *experiment.columns)}
        return row | ({"config": cell.config} if cell.control else {})

    def _run(self, cells: Sequence[Cell], experiment: Experiment, earlier: dict[str, list[Row]]) -> None:
        """Run and measure the cells that are not finished and whose data are here."""
        todo = [cell for cell in cells if self.finished(cell, experiment, earlier) is None]
        todo = [cell for cell in todo if self.has(cell.settings.data.source) and self.has(cell.target)]
        started = time.perf_counter()
        for number, cell in enumerate(todo, 1):
            if self.finished(cell, experiment, earlier) is not None:  # by another process since
                continue
            try:
                row = experiment.measured(self, cell)
            except BlockingIOError as error:  # another command wants the same run, and has it
                self.say(f"{number}/{len(todo)} {cell.name} is left to another process: {error}")
                continue
            write(self.runs / cell.result, row)
            if cell.control is None:
                left = (time.perf_counter() - started) / number * (len(todo) - number) / 60
                about = ", ".join(f"{v}" for v in cell.labels.values() if isinstance(v, str | int | float) and v)
                scores = row.get("failed") or experiment.in_short(row)
                self.say(f"{number}/{len(todo)} {cell.name} ({about}): {scores}; about {left:.0f} min left")

    def has(self, data: str | None) -> bool:
        """Whether a data set is there; if it is not, what to do is said once."""
        if data is not None and data not in self.absent:
            try:
                load(data, "train", root=self.root)
            except (ValueError, OSError) as error:
                self.absent[data] = str(error)
                self.say(f"Left out: {error}")
        return data not in self.absent

    def write(self, stem: str, rows: Sequence[Row], text: str, **about: Any) -> None:
        """Write a table as ``stem.md``, ``.csv`` and ``.json`` and tell it."""
        if self.made_up:
            text += "\nSmoke: the images are made up, so that nothing here is a finding.\n"
        about = {"budget": self.budget, "on": self.on, "missing": self.absent, **about}
        tables.write(self.out, stem, rows, text, **about)
        self.say(text)


def write(path: Path, content: Any) -> None:
    """Write a JSON file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1, allow_nan=False).encode() + b"\n")
