"""A job: how much of an experiment to run, where, and which part of it on this machine."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kvicreg.data import load
from kvicreg.reproduction import tables
from kvicreg.reproduction.cells import PROBE_IMAGES, Cell, Say, Split, controls, run_cells
from kvicreg.reproduction.known import known_rows, restore
from kvicreg.reproduction.stand_ins import write_stand_ins
from kvicreg.storage import write_atomically
from kvicreg.training.config import TrainConfig, load_config

__all__ = ["SETTINGS", "Budget", "Job", "part_of"]

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


@dataclass(frozen=True)
class Job:
    """What the command line says of an experiment.

    Args:
        budget: smoke (made-up images, seconds), small (two cores, hours) or full (GPUs).
        runs: folder of the run folders.
        out: folder of tables and figures.
        part: (k, n): the k-th of n shares, counted from 0.
        on: score on held-out training images or on the test set.
        data_root: where data sets live.
        seeds: one run of every cell for each; by default one at smoke size, else three.
    """

    budget: Budget = "small"
    runs: Path = Path("runs/cells")
    out: Path = Path("runs/results")
    part: tuple[int, int] = (0, 1)
    on: Split = "test"
    data_root: str | None = None
    say: Say = field(default=print, compare=False)
    seeds: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", tuple(self.seeds) or ((0,) if self.budget == "smoke" else (0, 1, 2)))

    @property
    def root(self) -> str | None:
        """Where the data are; at smoke size, unless told, made-up images in the official formats."""
        if self.made_up:
            return str(write_stand_ins(self.runs / "stand-ins"))
        return self.data_root

    @property
    def made_up(self) -> bool:
        """Whether the images are made up."""
        return self.budget == "smoke" and self.data_root is None

    @property
    def narrow(self) -> dict[str, Any]:
        """Settings where many runs are compared with each other only: a narrower encoder, where time is short."""
        return {"width": 0.25} if self.budget == "small" else {}

    def config(self, **settings: Any) -> TrainConfig:
        """The budget's settings with these on top."""
        return TrainConfig(**{**self._recording(), **SETTINGS[self.budget], **settings})

    def _recording(self) -> dict[str, Any]:
        return {"data_root": self.root, "probe_images": 0, "log_every": 100}

    def cell(
        self,
        labels: dict[str, Any] | None = None,
        target: str | None = None,
        recipe: str | None = None,
        **settings: Any,
    ) -> Cell:
        """A cell whose folder is named by its settings, so that experiments share the runs they have in common.

        Args:
            labels: columns of its row.
            target: other data to measure it on (transfer).
            recipe: a shipped recipe in place of the budget's settings.
            settings: changes of those.
        """
        config = self.config(**settings)
        if recipe is not None:
            config = replace(load_config(recipe), **self._recording(), **settings)
        usual = asdict(TrainConfig())
        own = {k: v for k, v in asdict(config).items() if v != usual[k] and k not in ("out", "data_root")}
        digest = hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:8]
        kind = config.kernel if config.method == "kernel-vicreg" else config.method
        kind += f"-{config.kernel}" if config.uses_kernel and config.kernel != kind else ""
        name = f"{Path(config.data).name}-{kind}-{config.seed}-{digest}"
        labelled = 10**9 if self.budget == "full" else PROBE_IMAGES
        return Cell(name, config, labels or {}, labelled, target)

    def write(self, stem: str, rows: Sequence[dict[str, Any]], text: str, **about: Any) -> None:
        """Write a table as ``stem.md``, ``.csv`` and ``.json`` and tell it."""
        if self.made_up:
            text += "\nSmoke: the images are made up, so that nothing here is a finding.\n"
        tables.write(self.out, stem, rows, text, budget=self.budget, on=self.on, **about)
        self.say(text)

    def extra(self, cell: Cell, name: str, compute: Callable[[Path], Any]) -> Any:
        """What else is measured of a finished cell's run folder, once: kept there as NAME.json."""
        path = self.runs / cell.name / f"{name}.json"
        if not path.is_file():
            write_atomically(path, json.dumps(compute(path.parent)).encode())
        return json.loads(path.read_text())

    def missing(self, names: Sequence[str]) -> dict[str, str]:
        """The data sets that are not there, each with what to do."""
        found = {}
        for name in names:
            try:
                load(name, "train", root=self.root)
            except (ValueError, OSError) as error:
                found[name] = str(error)
                self.say(f"Left out: {error}")
        return found

    def rows(self, cells: Sequence[Cell], *, with_controls: bool = True, folders: bool = False) -> list[dict[str, Any]]:
        """Run this part of the cells; the rows of all that are finished, after those of their controls.

        Controls are raw pixels, once for each data set, and the untrained encoder of each seed. Cells that tables in
        the folder of results already have are not run again, unless the experiment needs their `folders`.
        """
        known = known_rows(self.out, self.on)
        if not folders:
            restore(cells, self.runs, known, on=self.on)
        found: dict[str, dict[str, Any]] = {}
        if with_controls:
            for cell in cells:
                plain = replace(cell.config, images=None)
                of_cell: dict[str, Any] = {"probe_images": cell.probe_images, "target": cell.target}
                for row in controls(plain, self.runs, on=self.on, known=known, **of_cell):
                    found.setdefault(f"{row['method']} {row['config']}", row)
        ran = run_cells(cells, self.runs, on=self.on, part=self.part, folders=folders, say=self.say)
        return [*found.values(), *ran]


def part_of(text: str) -> tuple[int, int]:
    """ "2/3", the second of three shares, as (1, 3)."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"part: expected K/N with K from 1 to N, such as 1/2 on the first of two, got {text!r}")
    return int(match[1]) - 1, int(match[2])
