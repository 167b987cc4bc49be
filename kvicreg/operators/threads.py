"""Threads of our own, with a number of OpenMP threads that is theirs alone.

`torch.set_num_threads` changes the calling thread, but also the default of every thread that starts later. A worker
here sets its number in OpenMP and MKL directly, where it belongs to the thread; the rest of the process never sees it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path

import torch

__all__ = ["run_side_by_side", "threads_are_ours"]


@cache
def _setters() -> tuple[Callable[[int], object], ...]:
    """What sets the number of threads of the calling thread alone; nothing where torch is built another way."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    if "ATen parallel backend: OpenMP" not in torch.__config__.parallel_info() or not library.is_file():
        return ()
    try:
        symbols = ctypes.CDLL(str(library))
        setters = [symbols.omp_set_num_threads]
        if torch.backends.mkl.is_available():
            setters.append(symbols.MKL_Set_Num_Threads_Local)  # in lower case it is Fortran's, of a pointer
    except (OSError, AttributeError):
        return ()
    for setter in setters:
        setter.argtypes, setter.restype = [ctypes.c_int], ctypes.c_int
    return tuple(setters)


def threads_are_ours() -> bool:
    """Whether `run_side_by_side` can be used with this build of torch."""
    return bool(_setters())


@lru_cache(maxsize=8)
def _pool(process: int, workers: int, threads: int) -> ThreadPoolExecutor:
    """Workers of so many threads each; a forked process makes its own."""

    def start() -> None:
        torch.get_num_threads()  # a thread takes torch's default when it is first used: before it is given its own
        for set_threads in _setters():
            set_threads(threads)

    return ThreadPoolExecutor(workers, "kvicreg", initializer=start)


def run_side_by_side(task: Callable[[int], None], count: int, *, workers: int, threads: int) -> None:
    """``task(0), ..., task(count - 1)`` on so many workers of so many threads each; this thread waits."""
    todo: Iterator[int] = iter(range(count))

    def lane() -> None:
        for i in todo:
            task(i)

    pool = _pool(os.getpid(), workers, threads)
    for lane_done in [pool.submit(lane) for _ in range(workers)]:
        lane_done.result()
