"""How the process of a command is set up, before torch is loaded; what the user's environment says wins."""

from __future__ import annotations

import ctypes
import os

__all__ = ["set_up"]

LARGEST_BLOCK = 1 << 30


def set_up() -> None:
    """Let threads wait briefly, and keep freed memory for the next step."""
    # Eigensolves run side by side, and a thread of OpenMP's that waits for work keeps a core from them: let it wait
    # for a fraction of a millisecond instead of several.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    # Activations are blocks of many megabytes, which glibc would give back to the system and ask for again in every
    # step; each time, the system fills them with zeros.
    if not any(name in os.environ for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")):
        try:
            mallopt = ctypes.CDLL(None).mallopt
        except (OSError, AttributeError, TypeError):  # no glibc
            return
        m_trim_threshold, m_mmap_threshold = -1, -3
        mallopt(m_mmap_threshold, LARGEST_BLOCK)
        mallopt(m_trim_threshold, LARGEST_BLOCK)
