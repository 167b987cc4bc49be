"""Starting weights: what of a checkpoint fits an encoder, by whatever names, and a report of what did not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kvicreg.models.encoder import EncoderOptions
from kvicreg.models.transformers_models import TransformersEncoder

__all__ = ["LEAST_SHARE", "library_module", "start_from"]

LEAST_SHARE = 0.9
"""Of an encoder's numbers, the share that starting weights must fill: below it they are another model's."""
SAME_MODEL = "The encoder must be the same model: the same width, and for a ResNet the same stem (--stem imagenet)"
Weights = Mapping[str, Tensor]


def library_module(encoder: nn.Module) -> nn.Module:
    """The module of the library that an encoder comes from, which is the encoder itself unless it is wrapped."""
    return encoder.model if isinstance(encoder, TransformersEncoder) else encoder


def start_from(encoder: nn.Module, weights: Weights, source: str, options: EncoderOptions | None = None) -> str:
    """Fill an encoder with weights from elsewhere; returns a sentence on what fitted.

    Names may have any prefix (``module.backbone.``); where none fits, weights are matched in order, if all of their
    shapes and last names agree. The input layer is adapted to other channels and a table of positions to another size.

    Args:
        encoder: what to fill.
        weights: tensors by name, more or fewer than the encoder has.
        source: what they are called in sentences.
        options: the encoder's settings, whose library may know further layouts.

    Raises:
        ValueError: where less than `LEAST_SHARE` of the encoder's numbers are there, or one has another shape.
    """
    module = library_module(encoder)
    target = module.state_dict()
    layouts = [weights] if options is None else [weights, options.translated(weights, module)]
    fitting, how = max((_matched(target, layout) for layout in layouts), key=lambda match: _numbers(match[0]))
    share = _numbers(fitting) / max(1, _numbers(target))
    missing = [name for name in target if name not in fitting and not name.endswith("num_batches_tracked")]
    prefix = _prefix(target, weights)
    for name in missing:
        if prefix + name in weights:
            shapes = f"{tuple(weights[prefix + name].shape)} there and {tuple(target[name].shape)} here"
            raise ValueError(f"{source} does not fit the encoder: {name} is {shapes}. {SAME_MODEL}")
    if share < LEAST_SHARE:
        left = [key for key in weights if key.removeprefix(prefix) not in target]
        raise ValueError(
            f"{source} does not fit the encoder: it has {share:.0%} of its numbers, and {LEAST_SHARE:.0%} are needed. "
            f"Not in it: {_listed(missing)}. In it, but not in the encoder: {_listed(left)}"
        )
    module.load_state_dict(fitting, strict=False)
    more = f"; not there, so as the seed made them: {_listed(missing)}" if missing else ""
    tensors = f"{len(fitting)} of {len(target)} tensors, {share:.1%} of the encoder's numbers"
    return f"Starts from {source}: {tensors}{how}{more}."


def _matched(target: Weights, weights: Weights) -> tuple[dict[str, Tensor], str]:
    """The tensors that fit, by the target's names, and how they were found where that is worth saying."""
    prefix = _prefix(target, weights)
    by_name = {name: weights[prefix + name] for name in target if prefix + name in weights}
    adapted = {
        name: fitting for name, value in by_name.items() if (fitting := _adapted(target[name], value)) is not None
    }
    changed = [name for name, value in by_name.items() if name in adapted and value.shape != target[name].shape]
    how = f", names without {prefix!r}" if prefix else ""
    how += f", {_listed(changed)} adapted" if changed else ""
    if _numbers(adapted) < LEAST_SHARE * _numbers(target) and (in_order := _in_order(target, weights)):
        return in_order, ", matched in order because names differ"
    return adapted, how


def _prefix(target: Weights, weights: Weights) -> str:
    """What stands before the target's names in the file, so that most of them are there.

    Of several the shortest, but no momentum encoder's before its own, and no student's before its teacher's.
    """
    some = islice(target, 0, None, max(1, len(target) // 8))
    candidates = {key.removesuffix(name) for name in some for key in weights if key.endswith(name)}
    candidates = {prefix for prefix in candidates if not prefix or prefix.endswith(".")} | {""}

    def order(prefix: str) -> tuple[int, bool, bool, int, str]:
        matches = sum(prefix + name in weights for name in target)
        return -matches, "momentum" in prefix, "student" in prefix, len(prefix), prefix

    return min(candidates, key=order)


def _in_order(target: Weights, weights: Weights) -> dict[str, Tensor]:
    """The file's first tensors by the target's names, if all shapes and last names agree; else none."""
    pairs = list(zip(target.items(), weights.items(), strict=False))
    agree = all(
        value.shape == other.shape and name.rpartition(".")[2] == key.rpartition(".")[2]
        for (name, value), (key, other) in pairs
    )
    return {name: other for (name, _), (_, other) in pairs} if agree and len(pairs) == len(target) else {}


def _adapted(like: Tensor, value: Tensor) -> Tensor | None:
    """A weight in another's shape: an input layer of other channels, positions of another grid; None if neither."""
    if value.shape == like.shape:
        return value
    if like.ndim == value.ndim == 4 and like.shape[2:] == value.shape[2:] and len(like) == len(value):
        return _other_channels(value, like.shape[1])
    if like.ndim == value.ndim == 3 and len(like) == len(value) == 1 and like.shape[2] == value.shape[2]:
        return _other_grid(value, like.shape[1])
    return None


def _other_channels(weight: Tensor, channels: int) -> Tensor | None:
    """An input layer (o, 3, k, k) for other channels: for grey their sum; else in turn, scaled."""
    if weight.shape[1] != 3:
        return None
    if channels == 1:
        return weight.sum(1, keepdim=True)
    return weight.repeat(1, math.ceil(channels / 3), 1, 1)[:, :channels] * (3 / channels)


def _other_grid(positions: Tensor, count: int) -> Tensor | None:
    """A table of positions (1, n, d), a square grid behind a few tokens, for a grid of another size."""
    before, width = positions.shape[1], positions.shape[2]
    for tokens in range(min(before, count, 16)):
        sides = [math.isqrt(n - tokens) for n in (before, count)]
        if sides[0] ** 2 == before - tokens and sides[1] ** 2 == count - tokens:
            grid = positions[:, tokens:].reshape(1, sides[0], sides[0], width).permute(0, 3, 1, 2).float()
            grid = F.interpolate(grid, (sides[1], sides[1]), mode="bicubic", antialias=True, align_corners=False)
            grid = grid.permute(0, 2, 3, 1).reshape(1, -1, width).to(positions.dtype)
            return torch.cat([positions[:, :tokens], grid], 1)
    return None


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "nothing"


def _numbers(weights: Mapping[str, Any]) -> int:
    return sum(value.numel() for value in weights.values() if value.is_floating_point())
