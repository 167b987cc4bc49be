"""Options with one setting changed, for tests that every setting reaches what it is a setting of."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any, Literal

from kvicreg.options import Options, Setting


def changed(options: Options) -> Iterator[tuple[str, Options, Options]]:
    """For each switch, number and enumerated setting: its name, and options that differ in it alone."""
    for setting in options.settings():
        if setting.choices or not other_values(setting) or isinstance(other_values(setting)[0], str):
            continue
        yield setting.name, *change(options, setting.name)


def change(options: Options, name: str) -> tuple[Options, Options]:
    """Options that differ in this setting alone; where it is read only with another, that one is changed in both."""
    (setting,) = (setting for setting in options.settings() if setting.name == name)
    refusal = ValueError(f"no other value of {name} is tried here")
    for value in other_values(setting):
        try:
            return options, options.replace(**{name: value})
        except ValueError as error:
            refusal = error
            if needed := re.search(r"is read only with (\w+)", str(error)):
                return change(change(options, needed[1])[1], name)
    raise refusal


def other_values(setting: Setting) -> list[Any]:
    parts = [part for part in typing.get_args(setting.type) if part is not type(None)] or [setting.type]
    if typing.get_origin(setting.type) is Literal:
        return [part for part in parts if part != setting.value]
    if parts[0] is bool:
        return [not setting.value]
    start = setting.value or 0
    return {int: [start + 1, start - 1], float: [start + 0.5, start / 2 + 0.1, -0.5], str: ["other"]}.get(parts[0], [])
