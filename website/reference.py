"""The reference pages, written from the code itself when the site is built, so that they can't drift from it."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import Field, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import griffe

from kvicreg.cli import COMMANDS, main
from kvicreg.options import Family, Options
from kvicreg.runs import RunFolder, Settings, folder
from kvicreg.runs.config import recipes
from kvicreg.runs.results import MEASURES
from kvicreg.training.record import COLUMNS

__all__ = ["PACKAGE", "api_pages", "command_page", "file_page", "public_names", "settings_page"]

PACKAGE = Path(__file__).parents[1] / "kvicreg"


# ---- the API


def public_names() -> dict[str, list[str]]:
    """What the package and each of its parts export; the command line has a page of its own."""
    parts = ["kvicreg", *(f"kvicreg.{path.parent.name}" for path in sorted(PACKAGE.glob("*/__init__.py")))]
    exported = {part: sorted(getattr(import_module(part), "__all__", ())) for part in parts if part != "kvicreg.cli"}
    return {part: [name for name in names if name != "__version__"] for part, names in exported.items() if names}


def api_pages() -> Iterator[tuple[str, str]]:
    """Path and Markdown of a page for each part of the package; mkdocstrings fills them from the docstrings."""
    names = public_names()
    tree = griffe.load("kvicreg", search_paths=[str(PACKAGE.parent)], resolve_aliases=True, allow_inspection=False)
    undocumented = [f"{part}.{name}" for part in names for name in names[part] if not _is_documented(tree, part, name)]
    if undocumented:
        raise ValueError(f"public names without a docstring: {', '.join(undocumented)}")
    for part, exported in names.items():
        if part == "kvicreg":
            continue
        first, _, rest = inspect.cleandoc(import_module(part).__doc__ or "").partition("\n")
        lines = [f"# {part}", first, *([f"```python\n{rest.strip()}\n```"] if "(" in rest else [rest.strip()])]
        yield f"reference/{part}.md", "\n\n".join([*lines, *(f"::: {part}.{name}" for name in exported)])
    lines = ["# kvicreg", inspect.cleandoc(import_module("kvicreg").__doc__ or ""), "| name | |\n|---|---|"]
    rows = [f"| [`{name}`]({_home(names, name)}) | {_summary(name)} |" for name in names["kvicreg"]]
    yield "reference/kvicreg.md", "\n\n".join(lines) + "\n" + "\n".join(rows)


def _is_documented(tree: Any, part: str, name: str) -> bool:
    member = tree[f"{part}.{name}".removeprefix("kvicreg.")]
    return member.is_module or member.has_docstring


def _home(names: dict[str, list[str]], name: str) -> str:
    if f"kvicreg.{name}" in names:
        return f"kvicreg.{name}.md"
    part = next(part for part, exported in names.items() if part != "kvicreg" and name in exported)
    return f"{part}.md#{part}.{name}"


def _summary(name: str) -> str:
    text = inspect.getdoc(getattr(import_module("kvicreg"), name)) or ""
    return " ".join(text.split("\n\n")[0].split())


# ---- the command line


def command_page() -> str:
    """Every command with its help, as its parser prints it."""
    parts = ["# Command line", _block(_printed("--help"))]
    for name in COMMANDS:
        parts += [f"## {name}", _block(_printed(*name.split(), "--help"))]
    parts.append(
        "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. `KVICREG_DEBUG=1` shows every traceback."
    )
    return "\n\n".join(parts)


def _printed(*words: str) -> str:
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "100"
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            code = main(list(words))
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    if code:
        raise ValueError(f"kvicreg {' '.join(words)} ended with {code}")
    return re.sub(r"\x1b\[[\d;]*m", "", text.getvalue())


def _block(text: str) -> str:
    return f"```text\n{text.strip()}\n```"


# ---- settings


def settings_page() -> str:
    """Every setting of a run: the groups, and what each member of a family reads."""
    intro = (
        "Each name is a flag of `kvicreg train` (`--batch-size 256`), a key of a recipe and of a run's `config.yaml` "
        "(`batch_size: 256`), and a keyword of `Settings.of(batch_size=256)`. A setting that nothing reads is refused."
    )
    parts = ["# Settings", intro]
    for f in fields(Settings):
        if "family" in f.metadata:
            parts += [f"## {f.name}", _table([_row(f, str)]), *_family(f.name, f.metadata["family"])]
        else:
            group = typing.cast(type[Options], f.default_factory)
            parts += [f"## {f.name}", group.__doc__ or "", _table(_rows(group)), *_families(group)]
    return "\n\n".join([*parts, "## recipes", _recipes()])


def _rows(cls: type[Options]) -> Iterator[tuple[Any, ...]]:
    """Name, type, default and help of each setting of a group and of the groups within it."""
    hints = typing.get_type_hints(cls)
    for f in fields(cls):
        if f.metadata.get("argument"):
            continue
        if "help" in f.metadata:
            yield _row(f, hints[f.name])
        else:
            yield from _rows(typing.cast(type[Options], f.default_factory))


def _row(f: Field[Any], kind: Any) -> tuple[Any, ...]:
    if "family" in f.metadata:
        return f.name, str, typing.cast(Any, f.default_factory)().choice, f.metadata["help"]
    return f.metadata["flag"] or f.name, kind, f.default, f.metadata["help"]


def _families(cls: type[Options]) -> Iterator[str]:
    """What the members of the families read that a group chooses from."""
    for f in fields(cls):
        if "family" in f.metadata:
            yield from _family(f.name, f.metadata["family"])
        elif not f.metadata:
            yield from _families(typing.cast(type[Options], f.default_factory))


def _family(name: str, family: Family[Any]) -> Iterator[str]:
    readers: dict[tuple[Any, ...], list[str]] = {}
    inner: dict[str, None] = {}
    for label, member in family.load().items():
        for row in _rows(member):
            readers.setdefault(row, []).append(f"`{label}`")
        inner |= dict.fromkeys(_families(member))
    everyone = len(family.members)  # names that are put together, such as mixtures, included
    yield f"`{name}` is one of {', '.join(f'`{label}`' for label in family.names())}. They read:"
    rows = ((*row, "all" if len(by) == everyone else ", ".join(by)) for row, by in readers.items())
    yield _table(rows, ("setting", "type", "default", "what it is", "read by"))
    yield from inner


def _table(rows: Iterable[Sequence[Any]], heads: Sequence[str] = ("setting", "type", "default", "what it is")) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, kind, default, text, *more in rows:
        shown = "" if default in (None, (), "") else f"`{default}`"
        cells = [f"`{name}`", _type(kind), shown, text, *more]
        lines.append(f"| {' | '.join(str(cell).replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _type(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(str(value) for value in typing.get_args(kind))
    parts = [_type(part) for part in typing.get_args(kind) if part not in (type(None), ...)]
    if typing.get_origin(kind) is tuple:
        return f"{parts[0]} ..."
    return " or ".join(parts) if parts else getattr(kind, "__name__", str(kind))


def _recipes() -> str:
    lines = [f"- `{name}`: {', '.join(f'{k} {v}' for k, v in recipe.items())}" for name, recipe in recipes().items()]
    return "Shipped by name, for `kvicreg train --config NAME`:\n\n" + "\n".join(lines)


# ---- files


def file_page() -> str:
    """What lies where in a run, from the module that alone knows it."""
    tree = inspect.cleandoc(folder.__doc__ or "").partition("\n\n")[2]
    measures = "\n".join(f"| `{key}` | {measure.heading} | {measure.unit} |" for key, measure in MEASURES.items())
    parts = [
        "# Files of a run",
        "A run is a folder. Every file is written whole or not at all, so a run can be killed at any moment; "
        f"[`RunFolder`](kvicreg.runs.md#kvicreg.runs.{RunFolder.__name__}) reads it from Python.",
        _block(tree),
        "## metrics.csv",
        "A row per epoch, with the columns "
        + ", ".join(f"`{name}`" for name in COLUMNS)
        + ". What was not measured is empty.",
        "## results.json",
        "What `kvicreg evaluate` measured. `subjects` holds each encoder and control by name with these measures, "
        "each a value with its 95 % interval:",
        f"| key | in tables | unit |\n|---|---|---|\n{measures}",
        "## config.yaml",
        "The [settings](settings.md) by their flat names, resolved.",
    ]
    return "\n\n".join(parts)
