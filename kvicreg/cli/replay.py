"""kvicreg replay."""

from __future__ import annotations

from pathlib import Path


def replay(run: Path, /) -> str:
    """Repeat the batch that stopped a training, and tell where it went wrong.

    When a loss is not finite, training stops at that step and leaves its batch in the run folder. From the last
    checkpoint on, the same steps are taken again, on one process and without changing the run.

    Example:
        kvicreg replay runs/first

    Args:
        run: run folder.
    """
    from kvicreg.training.replay import replay as repeat

    repeat(run)
    return f"What was found is in the run folder: {run}"
