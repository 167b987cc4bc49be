"""Training: configuration, the Lightning loop, what is recorded, checkpoints."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvicreg.training.config import TrainConfig, load_config
    from kvicreg.training.module import SelfSupervised
    from kvicreg.training.run import train

__all__ = ["SelfSupervised", "TrainConfig", "load_config", "train"]

_HOMES = {"TrainConfig": "config", "load_config": "config", "SelfSupervised": "module", "train": "run"}


def __getattr__(name: str) -> Any:
    """Import on first use: reading a config needs neither torch nor Lightning."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"kvicreg.training.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
