"""Lengths of time as people write and read them."""

from __future__ import annotations

import re

from kvicreg.storage import counted

__all__ = ["in_words", "minutes"]


def minutes(text: str, name: str = "time") -> float:
    """The minutes in a text such as "30m", "0.5h" or "90s"; `name` is the setting's, for the error.

    Example:
        >>> minutes("2h")
        120.0
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([smh])\s*", text)
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"{name}: expected something like 30m or 2h, got {text!r}")
    return float(match[1]) * {"s": 1 / 60, "m": 1.0, "h": 60.0}[match[2]]


def in_words(seconds: float) -> str:
    """A length of time in the unit that suits it.

    Example:
        >>> in_words(40), in_words(600), in_words(9000)
        ('40 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 90:
        return counted(round(seconds), "second")
    return counted(round(seconds / 60), "minute") if seconds < 5400 else f"{seconds / 3600:.1f} hours"
