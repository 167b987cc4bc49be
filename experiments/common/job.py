"""A job: how much of an experiment to run, where, and which share of it on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from experiments.common import tables
from experiments.common.cells import PROBE_IMAGES, Cell, Row, Split, in_former_form
from experiments.common.stand_ins import write_stand_ins
from kvicreg.data import data_root, load
from kvicreg.runs import Settings
from kvicreg.runs.config import recipe
from kvicreg.storage import write_atomically

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
    former: Annotated[bool, tyro.conf.Suppress] = False
    """Whether Kernel VICReg has the spectrum and the bandwidth that were the default; see `cells.FORMER`."""
    say: Annotated[Callable[[str], None], tyro.conf.Suppress] = field(default=partial(print, flush=True), compare=False)
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

    def settings(self, base: str | None = None, **settings: Any) -> Settings:
        """The budget's settings, or those of the recipe `base` in their place, with these on top."""
        usual = dict(recipe(base) if base else SETTINGS[self.budget])
        if settings.get("encoder", "small-cnn") != "small-cnn":
            usual.pop("pool", None)  # which other encoders do not read
        given = {**usual, "data_root": self.root, "probe_images": 0, "log_every": 100, **settings}
        return in_former_form(given) if self.former else Settings.of(**given)

    def cell(
        self, labels: dict[str, Any] | None = None, target: str | None = None, variant: str = "", **settings: Any
    ) -> Cell:
        """A cell of the settings that `settings` makes of these."""
        labelled = 10**9 if self.budget == "full" else PROBE_IMAGES
        return Cell(self.settings(**settings), labels or {}, self.on, labelled, target, variant)

    def has(self, data: str | None) -> bool:
        """Whether a data set is there; if it is not, what to do is said once."""
        if data is not None and data not in self.absent:
            try:
                load(data, "train", root=self.root)
            except (ValueError, OSError) as error:
                self.absent[data] = str(error).replace(str(data_root(self.root)), "the folder of data")
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


def size_setting(factor: str, value: float) -> dict[str, Any]:
    """The settings of a batch size or of a projector width."""
    names = ("batch_size",) if factor == "batch size" else ("projector_hidden", "projector_outputs")
    return dict.fromkeys(names, int(value))
