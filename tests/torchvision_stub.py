"""torchvision beside a CPU-only torch, for tests that need lightly or timm.

The published wheel is compiled for CUDA, so that its operators are missing there and its import fails on the first that
it looks up; `import_or_skip` declares the schemas of those and imports again. Nothing else than these tests may see
such a torchvision, since lightning imports it wherever it is installed: `make peers` puts it into a folder of its own.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import torch

MISSING = ("nms", "qnms")
"""The operators that importing torchvision 0.28 looks up although its library did not load."""

_libraries: list[torch.library.Library] = []  # a schema lives as long as its library


def import_or_skip(name: str) -> ModuleType:
    """The module `name`, or a skip that says how to run the test."""
    try:
        _import_torchvision()
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed; `make peers` installs and runs this", allow_module_level=True)


def _import_torchvision() -> None:
    try:
        importlib.import_module("torchvision")
    except RuntimeError:  # operator torchvision::nms does not exist
        library = torch.library.Library("torchvision", "DEF")
        for operator in MISSING:
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _libraries.append(library)
        importlib.import_module("torchvision")
