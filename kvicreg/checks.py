"""The check of one value: its type as a field is annotated, and the limits of a number."""

from __future__ import annotations

import difflib
import math
import types
import typing
from typing import Any, Literal

__all__ = ["check_limits", "checked"]


def checked(value: Any, hint: Any, name: str) -> Any:
    """The value as the hinted type, or a ValueError that says what was expected."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in parts:
            return None
        return checked(value, next(part for part in parts if part is not type(None)), name)
    if origin is Literal:
        if value not in parts:
            near = difflib.get_close_matches(str(value), [str(part) for part in parts], n=1)
            hint_text = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{name}: expected one of {', '.join(map(str, parts))}, got {value!r}{hint_text}")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name}: expected several values, got {value!r}")
        return tuple(checked(item, parts[0], name) for item in value)
    if hint is float and isinstance(value, str):  # YAML 1.1 reads 1e-3 as a string
        try:
            value = float(value)
        except ValueError:
            raise ValueError(f"{name}: expected a number, got {value!r}") from None
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ValueError(f"{name}: expected {hint.__name__}, got {value!r}")
    return value


def check_limits(name: str, value: Any, limits: dict[str, float]) -> None:
    """Refuse a number outside its limits, or one that is not finite."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}")
    tests = {
        "above": lambda limit: value > limit,
        "at_least": lambda limit: value >= limit,
        "below": lambda limit: value < limit,
        "at_most": lambda limit: value <= limit,
    }
    if not all(tests[kind](limit) for kind, limit in limits.items()):
        words = " and ".join(f"{kind.replace('_', ' ')} {limit:.10g}" for kind, limit in limits.items())
        words = "positive" if words == "above 0" else words
        raise ValueError(f"{name} must be {words}, got {value}")
