"""Lightning's loggers by name: where the numbers of a run go beside its own metrics.csv."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lightning.pytorch import loggers

from kvicreg.runs import RunFolder

__all__ = ["build_logger"]


def build_logger(name: str, run: RunFolder) -> Any:
    """The logger of that name for a run."""
    return _LOGGERS[name](run.path)


def _tensorboard(folder: Path) -> Any:
    return loggers.TensorBoardLogger(folder, name="tensorboard", version="")


def _csv(folder: Path) -> Any:
    return loggers.CSVLogger(folder, name="csv", version="")


def _wandb(folder: Path) -> Any:
    """Into the project that WANDB_PROJECT names, or else into one of our name."""
    _check_installed("wandb", "wandb")
    return loggers.WandbLogger(project=os.environ.get("WANDB_PROJECT") or PROJECT, name=folder.name, save_dir=folder)


def _mlflow(folder: Path) -> Any:
    """To the server or store that MLFLOW_TRACKING_URI names, or else to a data base in the run's folder."""
    _check_installed("mlflow", "mlflow-skinny")
    where = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
    return loggers.MLFlowLogger(PROJECT, run_name=folder.name, tracking_uri=where)


_LOGGERS: dict[str, Callable[[Path], Any]] = {
    "tensorboard": _tensorboard, "csv": _csv, "wandb": _wandb, "mlflow": _mlflow,
}  # fmt: skip
PROJECT = "kvicreg"


def _check_installed(module: str, package: str) -> None:
    if find_spec(module) is None:
        raise ImportError(f"logging to {module} needs the package {package}: pip install 'kvicreg[track]'")
