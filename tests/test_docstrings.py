"""Every public class and function shows how it is used, and every example in a docstring gives what it says."""

from __future__ import annotations

import doctest
import importlib
import inspect

import pytest
import torch
from source_tree import FILES, PACKAGE, check_rule

import kvicreg
from kvicreg.options import Options

# Names whose docstring has no example yet. Empty this list; never add to it.
STILL_WITHOUT_EXAMPLE: set[str] = set()

FOLDERS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def module_of(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def public_names(folder):
    """What a folder exports, by name."""
    package = importlib.import_module(f"kvicreg.{folder}")
    return {name: getattr(package, name) for name in getattr(package, "__all__", ())}


MODULES = [module_of(path) for path in FILES if ">>> " in path.read_text(encoding="utf-8")]


@pytest.fixture(scope="module")
def names():
    """What the examples may use without importing it: torch, and everything public."""
    public = [public_names(folder) for folder in FOLDERS if folder != "sklearn"]  # has names that others have too
    return {"torch": torch, "kvicreg": kvicreg} | {name: value for part in public for name, value in part.items()}


@pytest.mark.parametrize("module", MODULES)
def test_examples_give_what_they_say(module, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    result = doctest.testmod(importlib.import_module(module), extraglobs=names)
    assert result.attempted > 0
    assert result.failed == 0


def test_every_public_class_and_function_has_an_example():
    names = {
        f"kvicreg.{folder}.{name}": value
        for folder in FOLDERS
        for name, value in public_names(folder).items()
        # a NamedTuple is what something else returns, and options are given by name
        if inspect.isfunction(value) or (inspect.isclass(value) and not issubclass(value, tuple | Options))
    }
    without = {name for name, value in names.items() if ">>> " not in (inspect.getdoc(value) or "")}
    check_rule("public classes and functions without an example in their docstring", without, STILL_WITHOUT_EXAMPLE)
