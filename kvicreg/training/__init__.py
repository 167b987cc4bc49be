"""Training: settings become a run folder."""

from typing import TYPE_CHECKING, Any

from kvicreg.models.torchvision_import import make_torchvision_importable

if TYPE_CHECKING:
    from kvicreg.training.module import SelfSupervised
    from kvicreg.training.run import train

__all__ = ["SelfSupervised", "train"]

make_torchvision_importable()  # where it is installed, lightning imports it, and would fail with it
_HOMES = {"SelfSupervised": "module", "train": "run"}


def __getattr__(name: str) -> Any:
    """Lightning is imported when it is first needed."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"kvicreg.training.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
