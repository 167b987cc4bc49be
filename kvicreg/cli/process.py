"""How the process of a command is set up, before torch is loaded; what the user's environment says wins."""

from __future__ import annotations

import ctypes
import os

__all__ = ["import_lightning", "set_up"]

LARGEST_BLOCK = 1 << 30
LEFT_OUT = ("matplotlib", "scipy", "transformers")


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


def import_lightning() -> None:
    """Import Lightning without what its metrics load wherever it is installed: nearly four of five seconds.

    Nothing here uses these metrics. Somebody else's process is left alone: this is for commands.
    """
    from unittest.mock import patch

    from lightning_utilities.core import imports

    import kvicreg.training  # noqa: F401 - makes ready what lightning imports

    is_met, is_there = imports.RequirementCache.__bool__, imports.package_available

    def is_wanted(cache: imports.RequirementCache) -> bool:
        return not (cache.requirement or cache.module or "").startswith(LEFT_OUT) and is_met(cache)

    with (
        patch.object(imports.RequirementCache, "__bool__", is_wanted),
        patch.object(imports, "package_available", lambda name: name not in LEFT_OUT and is_there(name)),
    ):
        import lightning.pytorch  # noqa: F401
