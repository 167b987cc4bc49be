"""Memory is what the system's files, in a made-up root folder, or a GPU say it is."""

from __future__ import annotations

import gc
import os
import resource
from types import SimpleNamespace

import pytest
import torch
from pictures import CPU

from kvicreg.training import memory

GIBIBYTE = 2**30
MEMORY = "MemTotal:       8388608 kB\nMemFree:        1024 kB\nMemAvailable:   6291456 kB\n"
STATUS = "VmPeak:\t 9 kB\nVmSize:\t 3000 kB\nVmHWM:\t 700 kB\nVmRSS:\t 500 kB\nVmData:\t 2000 kB\n"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """`root(path, text)` writes a file of the made-up system."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    monkeypatch.setattr(memory, "Path", lambda name: tmp_path / str(name).removeprefix("/"))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}.__getitem__)
    write("proc/meminfo", MEMORY)
    write("proc/self/status", STATUS)
    return write


def test_the_system_tells_what_is_available(root):
    assert memory._limits() == [(8 * GIBIBYTE, 2 * GIBIBYTE)]
    assert (memory.total_bytes(CPU), memory.available_bytes(CPU)) == (8 * GIBIBYTE, 6 * GIBIBYTE)
    assert memory.used_bytes(CPU) == 500 * 1024


@pytest.mark.parametrize(
    ("kind", "used"), [(resource.RLIMIT_AS, 3000), (resource.RLIMIT_DATA, 2000), (resource.RLIMIT_STACK, None)]
)
def test_a_ulimit_counts_with_what_it_counts(root, monkeypatch, kind, used):
    limits = {kind: (5_000_000, 7_000_000)}
    everything = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits.get(kind, everything))
    assert memory._limits()[1:] == ([] if used is None else [(5_000_000, 1024 * used)])


@pytest.mark.parametrize(
    ("folder", "limit", "used", "stat"),
    [
        ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_anon 5\ninactive_file 1200\nx 1\n"),
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "cache 3\ntotal_inactive_file 1200"),
    ],
)
def test_a_container_of_either_version_counts(root, folder, limit, used, stat):
    root(f"{folder}/{limit}", "5000\n")
    root(f"{folder}/{used}", "3000\n")
    root(f"{folder}/memory.stat", stat)
    assert memory._limits()[1:] == [(5000, 1800)]
    root(f"{folder}/memory.stat", "other_inactive_file 9\n")
    assert memory._limits()[1:] == [(5000, 3000)]
    root(f"{folder}/{limit}", "max\n")
    assert memory._limits()[1:] == []


def test_version_1_counts_where_version_2_has_no_limit(root):
    root("sys/fs/cgroup/memory.max", "max\n")
    for name, text in (("limit_in_bytes", "900"), ("usage_in_bytes", "100")):
        root(f"sys/fs/cgroup/memory/memory.{name}", text)
    root("sys/fs/cgroup/memory/memory.stat", "")
    assert memory._limits()[1:] == [(900, 100)]


@pytest.mark.parametrize("text", ["nothing here", "MemTotal: 12 kB\n"])
def test_a_system_that_tells_nothing_has_half_of_its_pages(root, monkeypatch, text):
    root("proc/meminfo", text)
    assert memory._limits() == [(4_096_000, 2_048_000)]
    monkeypatch.delattr(os, "sysconf")
    assert memory._limits() == []


def test_what_is_known_before_a_file_fails_still_counts(root):
    root("sys/fs/cgroup/memory.max", "plenty")
    assert memory._limits() == [(8 * GIBIBYTE, 2 * GIBIBYTE)]


def test_without_a_status_nothing_is_in_use(root):
    root("proc/self/status", "Name: python\n")
    assert memory.used_bytes(CPU) == 0
    with pytest.raises(OSError, match=r"^/proc/self/status has no VmRSS$"):
        memory._status("VmRSS")


def test_the_peak_is_the_highest_since_the_work_began_above_the_start(root, monkeypatch):
    trimmed, cleared = [], root("proc/self/clear_refs", "")
    monkeypatch.setattr(memory.ctypes, "CDLL", {None: SimpleNamespace(malloc_trim=trimmed.append)}.__getitem__)

    def work():
        assert cleared.read_text() == "5"
        root("proc/self/status", STATUS.replace("700", "9000").replace("500", "800"))

    with memory.PeakMemory(CPU) as peak:
        assert cleared.read_text() == "5"
        cleared.write_text("")
        assert peak.of(work) == 1024 * (9000 - 500)
    assert trimmed == [0, 0]


@pytest.mark.parametrize("when", ["start", "later"])
def test_where_the_system_does_not_tell_the_work_is_done_and_its_peak_unknown(root, monkeypatch, when):
    done = []
    library = SimpleNamespace(malloc_trim=lambda pad: None)
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    cleared = root("proc/self/clear_refs", "")
    if when == "start":
        del library.malloc_trim
    with memory.PeakMemory(CPU) as peak:
        library.malloc_trim = lambda pad: None
        if when == "later":
            cleared.unlink()
            cleared.mkdir()
        assert peak.of(lambda: done.append(1)) is None
    assert done == [1]


def test_the_memory_of_a_gpu_is_asked_of_that_gpu(monkeypatch):
    second, reset = torch.device("cuda", 1), []
    answers = {"mem_get_info": (600, 1000), "memory_reserved": 70, "memory_allocated": 50, "max_memory_allocated": 90}
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, {second: answer}.__getitem__)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", reset.append)
    assert (memory.total_bytes(second), memory.available_bytes(second), memory.used_bytes(second)) == (1000, 620, 50)
    with memory.PeakMemory(second) as watched:
        assert watched.of(list) == 40
    assert reset == [second, second]


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_given_back_while_memory_is_measured(collects):
    was = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with memory.PeakMemory(CPU):
            assert not gc.isenabled()
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was else gc.disable)()
