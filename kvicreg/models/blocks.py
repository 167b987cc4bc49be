"""An encoder as a row of blocks, from images to features: what can be frozen, and can learn at its own rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import nn

from kvicreg.models.start import library_module
from kvicreg.options import did_you_mean

__all__ = ["Block", "blocks", "frozen_blocks"]


class Block(NamedTuple):
    """A part of an encoder with parameters: its name, its module, and the parameters that belong to it."""

    name: str
    module: nn.Module | None
    parameters: list[nn.Parameter]


def blocks(encoder: nn.Module) -> list[Block]:
    """The blocks of an encoder in order; parameters that lie between blocks, such as a class token, are the first's.

    A block is a child of the encoder; lists of modules, and children that have such lists, are taken apart.

    Example:
        >>> [block.name for block in blocks(ResNet18(width=0.25))][:4]
        ['conv1', 'bn1', 'layer1.0', 'layer1.1']
    """
    module = library_module(encoder)
    parts = [Block(name, part, list(part.parameters())) for name, part in _parts(module, "")]
    parts = [part for part in parts if part.parameters]
    inside = {id(parameter) for part in parts for parameter in part.parameters}
    between = [parameter for parameter in module.parameters() if id(parameter) not in inside]
    if not between:
        return parts
    first = parts[0] if parts else Block("whole", None, [])
    return [first._replace(parameters=between + first.parameters), *parts[1:]]


def _parts(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.named_children():
        is_list = isinstance(child, nn.Sequential | nn.ModuleList)
        if is_list or any(isinstance(grandchild, nn.ModuleList) for grandchild in child.children()):
            yield from _parts(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", child


def frozen_blocks(encoder: nn.Module, freeze: str | None) -> list[Block]:
    """The blocks that `freeze` names: "all", the number of first blocks, or names (or their beginnings) with commas."""
    if freeze is None:
        return []
    parts = blocks(encoder)
    if freeze == "all":
        return parts
    if freeze.isdecimal():
        if not 1 <= int(freeze) <= len(parts):
            raise ValueError(f"freeze: the encoder has {len(parts)} blocks, and {freeze} can't be frozen; all can")
        return parts[: int(freeze)]
    chosen: list[Block] = []
    for word in freeze.split(","):
        name = word.strip()
        named = [part for part in parts if part.name == name or part.name.startswith(f"{name}.")]
        if not named:
            names = [part.name for part in parts]
            raise ValueError(f"freeze: the encoder has no block {name!r}; {did_you_mean(name, names)}")
        chosen += named
    return chosen
