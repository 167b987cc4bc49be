"""timm, lightly and torchvision in tests, beside a CPU build of torch.

`make peers` installs them into a folder of their own; how they import there is the product's own business, since a user
who installs timm beside a CPU build of torch has the same torchvision (kvicreg/models/torchvision_import.py).
"""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from kvicreg.models.torchvision_import import make_torchvision_importable


def import_or_skip(name: str) -> ModuleType:
    """The module `name`, or a skip that says how to run the test."""
    try:
        make_torchvision_importable()
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed; `make peers` installs and runs this", allow_module_level=True)
