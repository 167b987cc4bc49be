"""The process of a command keeps its memory between steps, unless the user's environment says otherwise."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kvicreg.cli.process import LARGEST_BLOCK, set_up


@pytest.fixture
def calls(monkeypatch):
    calls = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *given: calls.append(given)))
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_large_blocks_are_kept(calls):
    set_up()
    assert sorted(calls) == [(-3, LARGEST_BLOCK), (-1, LARGEST_BLOCK)]


@pytest.mark.parametrize("name", ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_the_users_environment_wins(calls, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    set_up()
    assert calls == []


def test_a_system_without_glibc_is_left_alone(calls, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    set_up()


def test_lightning_comes_without_what_its_metrics_would_load():
    pytest.importorskip("lightning")
    program = """
import json, sys
from kvicreg.cli.process import LEFT_OUT, import_lightning
import_lightning()
loaded = [name for name in LEFT_OUT if name in sys.modules]
from torchmetrics.utilities.imports import _SCIPY_AVAILABLE  # what is there is known again afterwards
import kvicreg.training.run
print(json.dumps([loaded, bool(_SCIPY_AVAILABLE)]))
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == [[], True]
