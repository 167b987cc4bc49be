"""torchvision beside a CPU build of torch, where the wheel on PyPI, compiled for CUDA, does not import by itself."""

from __future__ import annotations

import importlib
import importlib.util

import torch

__all__ = ["make_torchvision_importable"]

MISSING = ("nms", "qnms")
"""The operators that importing torchvision looks up although its compiled library did not load."""

_libraries: list[torch.library.Library] = []  # a schema lives as long as its library


def make_torchvision_importable() -> None:
    """Import torchvision, where it is installed; where its operators are missing, declare them first.

    lightning and timm import torchvision, and fail with it. Models need none of these operators, which find boxes: one
    that is declared here and called raises NotImplementedError. A torchvision that fails otherwise is left to fail.
    """
    if importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if _libraries or "torchvision::nms" not in str(error):
            return
        library = torch.library.Library("torchvision", "DEF")
        for operator in MISSING:
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _libraries.append(library)
        importlib.import_module("torchvision")
