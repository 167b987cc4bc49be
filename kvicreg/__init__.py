"""Kernel VICReg: self-supervised learning in a reproducing kernel Hilbert space.

The loss needs torch alone. Training, evaluation and the command line are extras: ``pip install "kvicreg[train,eval]"``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvicreg import kernels, losses, operators
    from kvicreg.losses import KernelVICRegLoss, LossTerms, VICRegLoss
    from kvicreg.runs import Settings, load_encoder
    from kvicreg.training import train

__version__ = "0.2.0"

__all__ = [
    "KernelVICRegLoss",
    "LossTerms",
    "Settings",
    "VICRegLoss",
    "__version__",
    "kernels",
    "load_encoder",
    "losses",
    "operators",
    "train",
]

_HOMES = {
    "KernelVICRegLoss": "kvicreg.losses",
    "LossTerms": "kvicreg.losses",
    "VICRegLoss": "kvicreg.losses",
    "Settings": "kvicreg.runs",
    "load_encoder": "kvicreg.runs",
    "train": "kvicreg.training",
}


def _import_lazily(name: str) -> Any:
    """Names are imported when they are first used, so that the command line answers before torch has loaded."""
    if name in ("kernels", "losses", "operators"):
        return import_module(f"kvicreg.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'kvicreg' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("kvicreg"):
            raise
        raise ModuleNotFoundError(
            f"kvicreg.{name} needs {error.name}: pip install 'kvicreg[train]'", name=error.name
        ) from error
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # a type checker reads the imports above, and sees that any other name is a mistake
    __getattr__ = _import_lazily


def __dir__() -> list[str]:
    return __all__
