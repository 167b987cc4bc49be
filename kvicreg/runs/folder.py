"""RunFolder: the one place that knows what lies where in a run, reads it and writes it atomically.

RUN/config.yaml            everything needed to run it again, resolved
    metrics.csv            a row per epoch
    spectrum.npz           eigenvalues of the centred operator per epoch
    checkpoints/           last (resumable, exact) and best
    encoder.safetensors    the weights; encoder.json says what they are, projector.safetensors is beside them
    start.safetensors      the weights that the encoder started from, of a run that did not start from random ones
    results.json           what evaluate measured; results-on-DATA.json on other data
    evaluation/            arrays behind the results, and features that are computed once
    report.html, figures/  one self-contained page, and figures for papers
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kvicreg.models import PretrainedEncoder
from kvicreg.runs.arrays import checked_arrays, write_arrays
from kvicreg.runs.config import dump_settings, load_settings
from kvicreg.runs.encoder import load_encoder, load_start, remove_encoder
from kvicreg.runs.metrics import Metrics, read_metrics, write_metrics
from kvicreg.runs.settings import Settings
from kvicreg.runs.stored import CONFIG, START, StoredEncoder, Which, checkpoint_path, has_encoder, run_and_checkpoint
from kvicreg.runs.zoo import is_of_zoo, located
from kvicreg.storage import LOCK, quoted, read_arrays, working_on, write_atomically, write_json

__all__ = ["RunFolder"]


class RunFolder:
    """A run on disk. Making one touches nothing; `RunFolder.open` checks that there is a run.

    Args:
        path: the folder, or a checkpoint in it, whose encoder then counts as the run's.

    Example:
        >>> RunFolder("runs/first").checkpoint("last").as_posix()
        'runs/first/checkpoints/last.ckpt'
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self.which = run_and_checkpoint(path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.path.resolve().name

    # ---- the folder

    @classmethod
    def open(cls, path: str | Path) -> RunFolder:
        """An existing run, or an error that says what is missing."""
        if is_of_zoo(path):
            located(path)  # or an error that says which there are
            raise ValueError(
                f"{path} comes with kvicreg and is only read: kvicreg evaluate {path} --out DIR makes a run folder of "
                f"it, for results and reports, and kvicreg train --init {path} trains one of your own from it"
            )
        run = cls(path)
        if not run.path.exists():
            raise FileNotFoundError(f"there is no run folder {path}")
        if not run.exists:
            raise ValueError(f"{path} is not a run folder: it has no {run.config.name} (kvicreg train writes one)")
        return run

    @property
    def config(self) -> Path:
        """The file of settings, by which a run folder is known."""
        return self.path / CONFIG

    @property
    def exists(self) -> bool:
        """Whether there is a run here, finished or not."""
        return self.config.is_file()

    @property
    def is_finished(self) -> bool:
        """Whether the training has reached its end and left its encoder."""
        return has_encoder(self.path)

    def lock(self, work: str) -> AbstractContextManager[None]:
        """Hold the folder for this process while it does this work."""
        return working_on(self.path, work)

    def prepare(self, *, resume: bool, overwrite: bool) -> None:
        """Make the folder, which this process holds, ready for training, or say why it can't be used.

        A new run's folder is empty afterwards: the settings, by which a run is known, are to be its first file.
        """
        if resume:
            for leftover in self.path.glob("**/.*.tmp"):  # of a write that was cut short
                leftover.unlink()
        elif any(not path.name.startswith(".") for path in self.path.iterdir()):
            if not overwrite:
                raise FileExistsError(
                    f"{self.path} exists. Continue it with --resume {quoted(self.path)}, replace it with --overwrite, "
                    "or choose another --out"
                )
            if not self.exists:
                raise FileExistsError(
                    f"{self.path} is not a run folder, so --overwrite leaves it alone: choose another --out"
                )
            self._empty()

    def _empty(self) -> None:
        # the config goes last: cut short, what is left is still a run that --overwrite may replace
        for path in sorted(self.path.iterdir(), key=lambda path: path == self.config):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()

    # ---- settings

    @cached_property
    def settings(self) -> Settings:
        """The run's settings, resolved."""
        return load_settings(self.config)

    def write_settings(self, settings: Settings) -> None:
        write_atomically(self.config, dump_settings(settings).encode())
        vars(self).pop("settings", None)  # those that were read before

    # ---- the record of training

    def metrics(self) -> Metrics:
        """What was measured every epoch; empty before the first."""
        return read_metrics(self.path / "metrics.csv")

    def write_metrics(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a row per epoch; the last row names the columns."""
        write_metrics(self.path / "metrics.csv", rows)

    def spectra(self) -> dict[str, np.ndarray] | None:
        """The arrays `epochs` (E,) and `eigenvalues` (E, k), descending; None before the first epoch."""
        return checked_arrays(self.path / "spectrum.npz", {"epochs": 1, "eigenvalues": 2})

    def write_spectra(self, epochs: np.ndarray, eigenvalues: np.ndarray) -> None:
        write_arrays(self.path / "spectrum.npz", compressed=False, epochs=epochs, eigenvalues=eigenvalues)

    def checkpoint(self, which: Which) -> Path:
        """The checkpoint to resume from, or the one of the best epoch."""
        return checkpoint_path(self.path, which)

    # ---- the encoder

    @cached_property
    def description(self) -> dict[str, Any]:
        """What the encoder is, of the last checkpoint before a run has finished: architecture, image size, ..."""
        return StoredEncoder(self.path, self.which).description()

    @cached_property
    def encoder_hash(self) -> str:
        """A hash of the encoder's weights."""
        return StoredEncoder(self.path, self.which).sha256()

    def encoder(self, *, projector: bool = False, device: Any = "cpu") -> PretrainedEncoder:
        """The trained encoder in evaluation mode; a line says so where it is that of a checkpoint."""
        return load_encoder(self.path, which=self.which, projector=projector, device=device)

    @property
    def start(self) -> Path:
        """The weights that the encoder started from; no file where those were random."""
        return self.path / START

    @cached_property
    def start_hash(self) -> str | None:
        """A hash of those weights, or None."""
        return hashlib.sha256(self.start.read_bytes()).hexdigest() if self.start.is_file() else None

    def starting_encoder(self, *, device: Any = "cpu") -> PretrainedEncoder:
        """The encoder as it was before training, with the run's normalization, in evaluation mode."""
        return load_start(self.start, self.description).to(device).eval()

    def remove_encoder(self) -> None:
        """Take away the encoder of a run that trains on; its weights are in the last checkpoint."""
        remove_encoder(self.path)

    def export_path(self, format: Literal["onnx", "torch", "timm", "hf"]) -> Path:
        """The encoder in a format for others to run: a file, or for another library a folder."""
        return self.path / {"onnx": "encoder.onnx", "torch": "encoder.pt2"}.get(format, f"encoder-{format}")

    # ---- faults

    def faults(self) -> list[Path]:
        """The batches that stopped the training, one for each process that met one; the first process's first."""
        paths = (self.path / "fault.npz", *sorted(self.path.glob("fault-*.npz")))
        return [path for path in paths if path.is_file()]

    def write_fault(self, rank: int | np.ndarray, **arrays: Any) -> Path:
        """Keep the batch that stopped the training of a process."""
        path = self.path / ("fault.npz" if rank == 0 else f"fault-{rank}.npz")
        write_arrays(path, rank=np.array(rank), **arrays)
        return path

    def write_replay(self, outcome: Mapping[str, Any]) -> Path:
        return self._write_json("replay.json", outcome)

    def write_unreadable(self, names: Sequence[str]) -> Path:
        """Write the list of image files that could not be read."""
        path = self.path / "unreadable.txt"
        write_atomically(path, ("\n".join(names) + "\n").encode())
        return path

    # ---- what evaluation, the report, the demo and a selection leave

    def results_path(self, on: str | None = None) -> Path:
        """The results on the run's own data, or on other data."""
        if on is None:
            return self.path / "results.json"
        return self.path / f"results-on-{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(on).name) or 'data'}.json"

    def transfer_paths(self) -> list[Path]:
        """The results on other data than the run's own."""
        return sorted(self.path.glob("results-on-*.json"))

    def arrays_path(self, kind: Literal["scores", "map"], on: str | None = None) -> Path:
        """The arrays behind the results of the same data."""
        return self.path / "evaluation" / f"{kind}{self.results_path(on).stem.removeprefix('results')}.npz"

    def arrays(self, kind: Literal["scores", "map"], on: str | None = None, **dimensions: int) -> Any:
        """The arrays behind the results, or None; with `dimensions`, those are there and have so many."""
        path = self.arrays_path(kind, on)
        if dimensions:
            return checked_arrays(path, dimensions)
        return read_arrays(path) if path.is_file() else None

    def write_arrays(self, kind: Literal["scores", "map"], on: str | None = None, **arrays: Any) -> None:
        path = self.arrays_path(kind, on)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(path, **arrays)

    @property
    def features(self) -> Path:
        """The folder of features that are computed once."""
        return self.path / "evaluation" / "features"

    @property
    def page(self) -> Path:
        return self.path / "report.html"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    def selection(self) -> dict[str, Any] | None:
        """The ranking of the selection that this run has won, or None."""
        path = self.path / "selection.json"
        if not path.is_file():
            return None
        try:
            ranking = dict(json.loads(path.read_text()))
            ranking["criterion"], [(r["candidate"], r["steps"], r["criteria"], r["error"]) for r in ranking["ranking"]]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is damaged or not written by kvicreg: delete it, or select again") from error
        return ranking

    def write_selection(self, ranking: Mapping[str, Any]) -> Path:
        return self._write_json("selection.json", ranking)

    def criteria(self, steps: int) -> dict[str, Any] | None:
        """The label-free criteria after so many steps, or None where they have not been measured."""
        path = self.path / f"criteria-{steps}.json"
        return dict(json.loads(path.read_text())) if path.is_file() else None

    def neighbours(self, steps: int) -> np.ndarray:
        """The nearest neighbours (n, k) of the images that the criteria were measured on."""
        return np.asarray(read_arrays(self.path / f"neighbours-{steps}.npz")["neighbours"])

    def write_criteria(self, steps: int, criteria: Mapping[str, Any], neighbours: np.ndarray) -> None:
        """Write the neighbours and then the criteria, whose file says that both are there."""
        write_arrays(self.path / f"neighbours-{steps}.npz", neighbours=neighbours)
        self._write_json(f"criteria-{steps}.json", criteria)

    def write_demo(self, summary: Mapping[str, Any]) -> Path:
        return self._write_json("demo.json", summary)

    def _write_json(self, name: str, content: Mapping[str, Any]) -> Path:
        write_json(self.path / name, content)
        return self.path / name
