"""Kernel VICReg: self-supervised learning in a reproducing kernel Hilbert space.

The loss needs torch alone. Training, evaluation and the command line are extras: ``pip install "kvicreg[train,eval]"``.
"""

from __future__ import annotations

from typing import Any

from kvicreg import kernels, losses, operators
from kvicreg.losses import KernelVICRegLoss, LossTerms, VICRegLoss

__version__ = "0.1.0"

__all__ = [
    "KernelVICRegLoss",
    "LossTerms",
    "VICRegLoss",
    "__version__",
    "kernels",
    "load_encoder",
    "losses",
    "operators",
    "train",
]

_LAZY = {"train": "kvicreg.training", "load_encoder": "kvicreg.models"}


def __getattr__(name: str) -> Any:
    """`kvicreg.train` and `kvicreg.load_encoder`, imported when they are first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'kvicreg' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("kvicreg"):
            raise
        raise ModuleNotFoundError(
            f"kvicreg.{name} needs {error.name}: pip install 'kvicreg[train]'", name=error.name
        ) from error
