"""Lightning's loggers by name: where the numbers of a run go beside its own metrics.csv."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lightning.pytorch import loggers

from kvicreg.runs import RunFolder
from kvicreg.runs.settings import RecordOptions

__all__ = ["build_loggers"]


def build_loggers(record: RecordOptions, run: RunFolder) -> list[Any]:
    """The logger of the settings, and Weights & Biases where a project of it is given."""
    names = [record.logger, *(["wandb"] if record.wandb is not None and record.logger != "wandb" else [])]
    return [_LOGGERS[name](record, run.path) for name in names]


def _tensorboard(record: RecordOptions, folder: Path) -> Any:
    return loggers.TensorBoardLogger(folder, name="tensorboard", version="")


def _csv(record: RecordOptions, folder: Path) -> Any:
    return loggers.CSVLogger(folder, name="csv", version="")


def _wandb(record: RecordOptions, folder: Path) -> Any:
    _check_installed("wandb", "wandb")
    return loggers.WandbLogger(project=record.wandb or PROJECT, name=folder.name, save_dir=folder)


def _mlflow(record: RecordOptions, folder: Path) -> Any:
    """To the server or store that MLFLOW_TRACKING_URI names, or else to a data base in the run's folder."""
    _check_installed("mlflow", "mlflow-skinny")
    where = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
    return loggers.MLFlowLogger(PROJECT, run_name=folder.name, tracking_uri=where)


_LOGGERS: dict[str, Callable[[RecordOptions, Path], Any]] = {
    "tensorboard": _tensorboard, "csv": _csv, "wandb": _wandb, "mlflow": _mlflow,
}  # fmt: skip
PROJECT = "kvicreg"


def _check_installed(module: str, package: str) -> None:
    if find_spec(module) is None:
        raise ImportError(f"logging to {module} needs the package {package}: pip install 'kvicreg[track]'")
