"""The examples in the docstrings of the core run and give what they say."""

import doctest
import importlib
import pkgutil

import pytest
import torch

import kvicreg
from kvicreg import kernels, losses, operators

MODULES = [
    name
    for package in (kernels, operators, losses)
    for _, name, _ in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
] + [package.__name__ for package in (kernels, operators, losses)]
NAMES = {"torch": torch, **vars(kernels), **vars(operators), **vars(losses), **vars(kvicreg)}


@pytest.mark.parametrize("module", MODULES)
def test_examples_give_what_they_say(module):
    torch.manual_seed(0)
    names = {name: value for name, value in NAMES.items() if not name.startswith("_")}
    result = doctest.testmod(importlib.import_module(module), extraglobs=names)
    assert result.failed == 0
