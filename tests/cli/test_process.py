"""The process of a command keeps its memory between steps, unless the user's environment says otherwise."""

from __future__ import annotations

import ctypes
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
