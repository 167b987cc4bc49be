"""All methods under one roof: same encoder, images, views, optimizer, budget and evaluation, in one table.

`kvicreg reproduce peers` writes it as Markdown, CSV and JSON. Controls: raw pixels, the same encoder untrained, and
the same encoder trained with labels. A method's own constants are to be chosen on validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvicreg.methods import METHODS
from kvicreg.reproduction import tables
from kvicreg.reproduction.jobs import Job

__all__ = ["PEERS", "run"]

KERNELS = ("linear", "laplacian", "rq")  # of Kernel VICReg, beside rbf, which every kernel method runs with
PEERS: tuple[tuple[str, str | None], ...] = tuple(
    (method, kernel)
    for method in METHODS
    for kernel in (("rbf",) if method.startswith("kernel-") else (None,)) + (KERNELS * (method == "kernel-vicreg"))
)
"""(method, kernel) of every row."""
SHARED = (
    "data", "images", "holdout", "encoder", "width", "pool", "epochs", "batch_size", "optimizer", "learning_rate",
    "weight_decay", "warmup_epochs", "projector_layers", "projector_hidden", "projector_outputs",
)  # fmt: skip


def run(
    job: Job,
    data: str = "mnist-small",
    *,
    seeds: Sequence[int] = (0,),
    methods: Sequence[str] = (),
    **settings: Any,
) -> list[dict[str, Any]]:
    """Train and measure every peer with every seed; write ``out/peers-DATA.md``, ``.csv`` and ``.json``.

    Args:
        methods: only these; all unless given.
        settings: what all peers share beside the budget's settings; each keeps its own loss settings.
    """
    unknown = set(methods) - set(METHODS)
    if unknown:
        raise ValueError(f"methods: there is no {sorted(unknown)[0]!r}; the methods are {', '.join(METHODS)}")
    source = Path(data).name
    cells = []
    for seed in seeds:
        for method, kernel in PEERS:
            if not methods or method in methods:
                own: dict[str, Any] = {"method": method, "seed": seed, **({"kernel": kernel} if kernel else {})}
                cells.append(job.cell(data=data, **settings, **own))
    rows = job.rows(cells)
    shared = ", ".join(f"{name} {getattr(cells[0].config, name)}" for name in SHARED)
    table = f"{tables.summary(rows)}\n\n{tables.note(rows)}\nShared by all: {shared}.\n"
    stem = f"peers-{source}{'' if job.on == 'test' else '-validation'}"
    job.write(stem, rows, table)
    return rows
