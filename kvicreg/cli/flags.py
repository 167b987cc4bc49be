"""Settings from the command line: flat flags by the names of the settings, and help that fits a screen."""

from __future__ import annotations

import argparse
import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import zip_longest
from typing import Any, Literal, NoReturn

from kvicreg.cli.errors import UsageError, usage_errors
from kvicreg.options import Options, Setting, Values, did_you_mean, readers

__all__ = ["flag", "help_page", "parse_flags", "value_of"]

WIDTH = 118


def flag(name: str) -> str:
    """The flag of a setting."""
    return f"--{name.replace('_', '-')}"


def value_of(name: str, argv: Sequence[str]) -> str | None:
    """The value given to a setting's flag on the command line, if it is there."""
    for place, word in enumerate(argv, 1):
        if word == flag(name):
            return argv[place] if place < len(argv) else None
        if word.startswith(f"{flag(name)}="):
            return word.removeprefix(f"{flag(name)}=")
    return None


def parse_flags(
    cls: type[Options], argv: Sequence[str], base: Mapping[str, Any] | None = None, positional: str | None = None
) -> dict[str, Any]:
    """The settings that a command line gives, by flat name.

    Args:
        cls: the options whose settings are the flags.
        argv: the words after the command.
        base: settings that the flags change, such as those of a recipe: they decide what is read, too.
        positional: name of the one argument without a flag, if there is one.
    """
    with usage_errors():
        active = {setting.name: setting for setting in _active(cls, argv, base or {}).settings()}
    for word in argv:
        name = word.partition("=")[0].removeprefix("--").replace("-", "_")
        if not word.startswith("--") or name in active or name.removeprefix("no_") in active:
            continue
        if name not in readers(cls):
            raise UsageError(f"there is no flag {word}; {_meant(name, cls, active)}")
        with usage_errors():
            cls.of(**{**_choices(cls, argv, base or {}), name: None})
    _check_switches(argv, active)
    parser = _Parser(add_help=False, allow_abbrev=False)
    if positional is not None:
        parser.add_argument(positional)
    for setting in active.values():
        _add(parser, setting)
    return vars(parser.parse_args(list(argv)))


def _meant(name: str, cls: type[Options], active: Mapping[str, Setting]) -> str:
    """What a flag that is not there may have meant: a value of another one, as in --wandb, or one of a like name."""
    for setting in active.values():
        if name.replace("_", "-") in (*setting.choices, *typing.get_args(setting.type)):
            return f"did you mean {flag(setting.name)} {name.replace('_', '-')}?"
    return did_you_mean(flag(name), map(flag, readers(cls)), "--help all")


def _check_switches(argv: Sequence[str], active: Mapping[str, Setting]) -> None:
    """Refuse a value behind a switch."""
    for word, following in zip_longest(argv, argv[1:], fillvalue=""):
        given, equals, _ = word.partition("=")
        name = given.removeprefix("--").removeprefix("no-").replace("-", "_")
        is_switch = given.startswith("--") and name in active and _plain_type(active[name].type) is bool
        if is_switch and (equals or following.lower() in ("true", "false", "yes", "no", "on", "off", "1", "0")):
            raise UsageError(f"{given} takes no value: {flag(name)} switches it on, {flag(f'no_{name}')} off")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def _choices(cls: type[Options], argv: Sequence[str], base: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the choices (method, encoder, kernel, ...) that the command line makes."""
    given = {name: value for name in readers(cls) if (value := value_of(name, argv)) is not None}
    tree, choices = cls.read(Values(base)), dict(base)
    while True:
        named = {s.name: given[s.name] for s in tree.settings() if s.choices and s.name in given}
        if named.items() <= choices.items():
            return choices
        choices |= named  # a choice may bring further ones: a method its kernel
        tree = cls.read(Values(choices))


def _active(cls: type[Options], argv: Sequence[str], base: Mapping[str, Any]) -> Options:
    """The options with the choices that the command line makes: their settings are the flags it may use."""
    return cls.read(Values(_choices(cls, argv, base)))


def _add(parser: argparse.ArgumentParser, setting: Setting) -> None:
    kind = _plain_type(setting.type)
    if kind is bool:
        parser.add_argument(flag(setting.name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS)
    elif typing.get_origin(kind) is tuple:
        parser.add_argument(flag(setting.name), nargs="+", default=argparse.SUPPRESS)
    else:
        parser.add_argument(flag(setting.name), type=_reader(kind), default=argparse.SUPPRESS)


def _plain_type(hint: Any) -> Any:
    """The type without None; that of the values, where they are enumerated."""
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    if type(None) in typing.get_args(hint):
        return _plain_type(parts[0])
    return type(parts[0]) if typing.get_origin(hint) is Literal else hint


def _reader(kind: Any) -> Any:
    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            return text  # the setting itself says what it expects

    return read


# ---- help


def help_page(command: str, doc: str, cls: type[Options], argv: Sequence[str], common: Sequence[str]) -> str:
    """The help of a command: its common settings, and a line for each group; or all of a group that is named.

    Args:
        command: such as "train".
        doc: what it does, with examples.
        cls: the options whose settings are its flags.
        argv: the command line, with --help in it, and after that a group's name or "all".
        common: the settings that people use most.
    """
    words = [word for word in argv if word not in ("-h", "--help")]
    place = next(i for i, word in enumerate(argv) if word in ("-h", "--help"))
    wanted = argv[place + 1] if len(argv) > place + 1 and not argv[place + 1].startswith("-") else None
    if wanted is not None:
        words.remove(wanted)
    options = _active(cls, words, {})
    groups = _groups(options)
    if wanted is not None:
        if wanted not in (*groups, "all"):
            raise UsageError(f"there is no group of settings {wanted!r}; {did_you_mean(wanted, [*groups, 'all'])}")
        chosen = groups if wanted == "all" else {wanted: groups[wanted]}
        return "\n\n".join(f"{name}:\n{_table(settings)}" for name, settings in chosen.items())
    active = {setting.name: setting for setting in options.settings()}
    lines = [f"usage: kvicreg {command} [--FLAG VALUE ...]", "", inspect.cleandoc(doc), ""]
    lines.append(_table([active[name] for name in common if name in active]))
    listed: set[str] = set()
    for name, part in _chosen(options):
        settings = [setting for setting in part.settings() if setting.name not in listed]
        if value_of(name, words) is not None and settings:
            lines += ["", f"What {part.choice} reads:", _table(settings)]
            listed |= {setting.name for setting in settings}
    if set(active) - set(common):
        lines += ["", f"All settings of a group: kvicreg {command} --help GROUP (or all)"]
        lines += [_line(name, settings) for name, settings in groups.items()]
    return "\n".join(lines)


def _chosen(options: Options) -> Iterator[tuple[str, Options]]:
    """Every choice in the tree, by the setting that makes it, with what is chosen."""
    for f in fields(options):
        part = getattr(options, f.name)
        if isinstance(part, Options):
            if "family" in f.metadata:
                yield f.name, part
            yield from _chosen(part)


def _groups(options: Options) -> dict[str, list[Setting]]:
    """The settings by top-level group; those of a group that only holds others stand in its place."""
    groups: dict[str, list[Setting]] = {}
    for f in fields(options):
        part = getattr(options, f.name)
        if not isinstance(part, Options):
            continue  # a setting of the command's own, shown with the common ones
        if "family" not in f.metadata and all(isinstance(getattr(part, inner.name), Options) for inner in fields(part)):
            groups |= _groups(part)
        else:
            settings = [s for s in options.settings() if s.name == f.name] if "family" in f.metadata else []
            groups[f.name] = [*settings, *part.settings()]
    return groups


def _table(settings: Sequence[Setting]) -> str:
    rows = []
    for setting in settings:
        shown = "" if setting.default in (None, False, (), "") else f" [{setting.default}]"
        rows.append((f"  {flag(setting.name)}", f"{setting.help}{shown}"))
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(f"{name:<{width}}{text}" for name, text in rows)


def _line(name: str, settings: Sequence[Setting]) -> str:
    line = f"  {name:<10}{', '.join(setting.name for setting in settings)}"
    return line if len(line) <= WIDTH else f"{line[: line.rindex(',', 0, WIDTH - 4)]}, ..."
