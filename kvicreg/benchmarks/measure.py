"""What benchmarks share: losses that take turns, so that all of them see the same machine, and the file of a result."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["SECONDS_PER_SIZE", "Cost", "code_hash", "code_of", "measure", "using_threads", "write_result"]

PACKAGE = Path(__file__).parents[1]

SECONDS_PER_SIZE = 20.0
"""Slow sizes are timed three times at least, and no more often than fits into this."""


class Cost(NamedTuple):
    """What a loss takes, forward and backward."""

    milliseconds: float
    peak_mib: float


def measure(
    losses: Mapping[Any, Callable[..., Tensor]],
    batch: int,
    width: int,
    repeats: int,
    device: str,
    taken: Mapping[Any, int] | None = None,
    count: int = 2,
) -> dict[Any, Cost]:
    """Median time and peak memory of each loss on `count` random views (batch, width), or as many as it has `taken`."""
    generator = torch.Generator().manual_seed(0)
    views = [torch.randn(batch, width, generator=generator).to(device).requires_grad_() for _ in range(count)]
    losses = {name: partial(_of_first, loss, (taken or {}).get(name, count)) for name, loss in losses.items()}

    def step(loss: Callable[..., Tensor]) -> float:
        for view in views:
            view.grad = None
        start = time.perf_counter()
        loss(*views).backward()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    for loss in losses.values():
        step(loss)
    rounds: list[list[float]] = []
    while len(rounds) < repeats and (len(rounds) < 3 or sum(map(sum, rounds)) < SECONDS_PER_SIZE):
        rounds.append([step(loss) for loss in losses.values()])
    costs = {}
    for (name, loss), seconds in zip(losses.items(), zip(*rounds, strict=True), strict=True):
        for view in views:
            view.grad = None  # or the step would begin by giving back what it has to hold in the end
        costs[name] = Cost(1e3 * statistics.median(seconds), _peak_mib(partial(step, loss), device))
    return costs


@contextlib.contextmanager
def using_threads(count: int) -> Iterator[None]:
    """So many threads of torch, and then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def code_hash(folder: str) -> str:
    """Changes where a module of this folder of the package does."""
    digest = hashlib.sha256()
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def code_of(*folders: str) -> dict[str, str]:
    """The digest of each of these folders of the package."""
    return {folder: code_hash(folder) for folder in folders}


def write_result(out: Path, conditions: Mapping[str, Any], of: Sequence[str] = (), **measured: Any) -> dict[str, Any]:
    """Write, as JSON, what was measured, under which conditions, on what machine and `of` the code of which folders."""
    about = {"machine": platform.machine(), "torch": torch.__version__}
    result = {**conditions, **about, **measured, **({"code": code_of(*of)} if of else {})}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n")
    return result


def _of_first(loss: Callable[..., Tensor], count: int, *views: Tensor) -> Tensor:
    return loss(*views[:count])


def _peak_mib(step: Callable[[], object], device: str) -> float:
    """MiB that a step takes at most, beside what was there before it."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    with _silent_stderr(), torch.profiler.profile(profile_memory=True) as profiler:
        step()
    current = peak = 0
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        current += event.nbytes()
        peak = max(peak, current)
    return peak / 2**20


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Without the profiler's own messages, which it writes past Python to the standard error stream."""
    stderr = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
