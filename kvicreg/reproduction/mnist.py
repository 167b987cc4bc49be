"""All of MNIST by the shipped recipe: every kernel and VICReg, and the kernel that validation chooses.

The recipe `mnist` says how to train; 5,000 training images are held out. The same runs are scored on those and on the
test set: the kernel is chosen on the first, with probes on 10,000 labelled images, and reported on the second, with
probes on all that are not held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean
from typing import Any

from kvicreg.reproduction import tables
from kvicreg.reproduction.jobs import Job
from kvicreg.reproduction.paper_tables import PAPER
from kvicreg.reproduction.proof import KERNELS
from kvicreg.reproduction.tables import Row

__all__ = ["run"]

VICREG = "vicreg, published"
HELD_OUT, EPOCHS = 5_000, 1
"""Training images to choose the kernel on; passes at the small budget, a twentieth of the recipe's."""


def run(job: Job, *, epochs: int | None = None, names: Sequence[str] = ()) -> dict[str, Any]:
    """Write ``mnist.md``, ``.csv`` and ``.json``, or with `epochs` ``mnist-EPOCHS-epochs``; `names` limits the rows."""
    missing = job.missing(["mnist"])
    recipe: dict[str, Any] = {} if job.budget == "smoke" else {"recipe": "mnist", "holdout": HELD_OUT}
    if epochs or job.budget == "small":
        recipe |= {"epochs": epochs or EPOCHS}
    models: dict[str, dict[str, Any]] = {kernel: {**recipe, "kernel": kernel} for kernel in KERNELS}
    models[VICREG] = {**recipe, "method": "vicreg"}
    models["supervised"] = {**recipe, "method": "supervised"}
    unknown = set(names) - set(models)
    if unknown:
        raise ValueError(f"names: there is no {sorted(unknown)[0]!r}; there are {', '.join(map(repr, models))}")
    models = {name: own for name, own in models.items() if not names or name in names}
    validation, test = [], []
    for seed in () if missing else job.seeds:
        cells = [job.cell({"name": name}, data="mnist", seed=seed, **own) for name, own in models.items()]
        held_out = replace(job, on="validation").rows(cells)
        scored = replace(job, on="test").rows([replace(cell, probe_images=10**9) for cell in cells])
        validation += [row for row in held_out if row not in validation]  # raw pixels have no seed
        test += [row for row in scored if row not in test]
    scores = {k[0]: mean(r["probe"] for r in same) for k, same in _of_kernels(validation).items()}
    best = max(scores, key=lambda kernel: scores[kernel], default=None)
    found: dict[str, Any] = {"chosen_on_validation": best, "validation": {k: round(v, 4) for k, v in scores.items()}}
    lines = [tables.summary(test, digits=2), "", tables.note(test)] if test else [*missing.values()]
    if best:
        margins = _margins(test)
        found["points_above_vicreg_with_the_same_seed"] = margins
        paper = ", ".join(f"{name} {number}" for name, number in PAPER["mnist"].items())
        lines += [f"Chosen on {validation[0]['scored_on']:,} held-out images: {best}. The paper's numbers: {paper}."]
        if margins:
            told = ", ".join(f"{kernel} {mean(points):+.2f}" for kernel, points in margins.items())
            lines += [f"Above VICReg with the same seed, in points of the linear probe: {told}."]
    lines += ["", *tables.unfinished(sum("name" in row for row in test), len(models) * len(job.seeds))]
    stem = f"mnist-{epochs}-epochs" if epochs else "mnist"
    job.write(stem, [*test, *validation], "\n".join([*lines, ""]), missing=missing, findings=found)
    return found


def _margins(rows: list[Row]) -> dict[str, list[float]]:
    """What every kernel has above VICReg, seed by seed, in percentage points."""
    rival = {row["seed"]: row["probe"] for row in rows if row.get("name") == VICREG and "probe" in row}
    return {
        kernel: [round(100 * (row["probe"] - rival[row["seed"]]), 2) for row in same if row["seed"] in rival]
        for (kernel,), same in _of_kernels(rows).items()
        if any(row["seed"] in rival for row in same)
    }


def _of_kernels(rows: list[Row]) -> dict[tuple[Any, ...], list[Row]]:
    return tables.groups([row for row in rows if row.get("name") in KERNELS and "probe" in row], "name")
