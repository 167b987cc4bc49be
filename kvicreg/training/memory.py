"""Memory: how much a process may still take, and the most that a piece of work has taken."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Self

import torch

__all__ = ["PeakMemory", "available_bytes", "total_bytes", "used_bytes"]

_CGROUPS = (  # the limit and the use of version 2 and of version 1, as a container sees its own
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def total_bytes(device: torch.device) -> int | None:
    """The memory of the device, or what the system, a container or ulimit lets this process have; None if unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    return min((limit for limit, _ in _limits()), default=None)


def available_bytes(device: torch.device) -> int | None:
    """What this process may still take of it; None if unknown."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    return min((max(0, limit - used) for limit, used in _limits()), default=None)


def used_bytes(device: torch.device) -> int:
    """What this process has of it now; 0 where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:
        return 1024 * _status("VmRSS")
    except OSError:
        return 0


class PeakMemory:
    """The most bytes that pieces of work have at a time beyond those at the start, when the block begins.

    Within the block no garbage is collected: what older work gives back would hide the growth.

    Example:
        >>> with PeakMemory(torch.device("cpu")) as memory:
        ...     megabytes = (memory.of(lambda: torch.ones(2**24)) or 2**26) >> 20
        >>> 60 < megabytes < 80
        True
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __enter__(self) -> Self:
        self.collects = gc.isenabled()
        gc.disable()
        self.start = self._restart()
        return self

    def __exit__(self, *_: object) -> None:
        if self.collects:
            gc.enable()

    def of(self, work: Callable[[], object]) -> int | None:
        """Do the work; its peak, or None where the system does not tell."""
        is_told = self._restart() is not None
        work()
        if self.start is None or not is_told:
            return None
        on_gpu = self.device.type == "cuda"
        return (torch.cuda.max_memory_allocated(self.device) if on_gpu else 1024 * _status("VmHWM")) - self.start

    def _restart(self) -> int | None:
        """Begin to watch for a peak; the bytes in use now."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return torch.cuda.memory_allocated(self.device)
        try:
            ctypes.CDLL(None).malloc_trim(0)  # what is free in the heap would hide the growth
            Path("/proc/self/clear_refs").write_text("5")
            return 1024 * _status("VmRSS")
        except (OSError, AttributeError):  # not Linux with glibc
            return None


def _limits() -> list[tuple[int, int]]:
    """Every limit on this process's main memory, with what counts as used of it."""
    limits = []
    try:
        kilobytes = dict(re.findall(r"(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text()))
        total = 1024 * int(kilobytes["MemTotal"])
        limits.append((total, total - 1024 * int(kilobytes["MemAvailable"])))
        for kind, used in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
            limit = resource.getrlimit(kind)[0]
            if limit != resource.RLIM_INFINITY:
                limits.append((limit, 1024 * _status(used)))
        for limit_file, used_file in _CGROUPS:
            if Path(limit_file).is_file() and (text := Path(limit_file).read_text().strip()) != "max":
                limits.append((int(text), int(Path(used_file).read_text()) - _reclaimable(Path(limit_file).parent)))
    except (OSError, KeyError, ValueError):
        pass  # of a system that tells otherwise we know less
    if not limits and hasattr(os, "sysconf"):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limits.append((total, total // 2))
    return limits


def _reclaimable(cgroup: Path) -> int:
    """Files that a cgroup has read, which the system forgets when memory is wanted."""
    match = re.search(r"^(?:total_)?inactive_file (\d+)", (cgroup / "memory.stat").read_text(), re.MULTILINE)
    return int(match[1]) if match else 0


def _status(name: str) -> int:
    match = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    if match is None:
        raise OSError(f"/proc/self/status has no {name}")
    return int(match[1])
