"""The paper's three tables, ours beside its own numbers with the difference.

Table 1: ImageNet100 and TinyImageNet, with eight other methods; 2: MNIST and CIFAR-10; 3: from CIFAR-10 to STL-10.
Every kernel runs twice: as printed, with the weights the paper reports, and scaled, with our one default triple.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

from kvicreg.reproduction import tables
from kvicreg.reproduction.cells import Cell
from kvicreg.reproduction.jobs import Job
from kvicreg.reproduction.tables import Row
from kvicreg.training.config import load_config

__all__ = ["PAPER", "TABLES", "run"]

PAPER: dict[str, dict[str, float | str]] = {
    "mnist": {"vicreg": 97.15, "linear": 98.33, "rbf": 92.68, "laplacian": 98.50, "rq": 97.46},
    "cifar10": {"vicreg": 83.41, "linear": 86.08, "rbf": 81.13, "laplacian": 84.56, "rq": 86.18},
    "stl10": {"vicreg": 69.82, "linear": 71.38, "rbf": 67.21, "laplacian": 71.09, "rq": 72.34},
    "tiny-imagenet": {
        "simclr": 37.83, "swav": 35.39, "moco": 41.23, "byol": 36.31, "dino": 35.77, "simsiam": 27.96,
        "vicreg": "collapse", "linear": 37.48, "rbf": 38.21, "laplacian": 40.12, "rq": 40.38,
    },
    "imagenet100": {
        "simclr": 78.64, "swav": 74.36, "moco": 79.62, "byol": 80.88, "dino": 75.41, "simsiam": 78.80,
        "vicreg": 79.77, "barlow-twins": 80.63, "linear": 77.34, "rbf": 78.14, "laplacian": 79.92, "rq": 79.80,
    },
}  # fmt: skip
"""Top-1 accuracy of a linear probe, in percent, as the paper reports it."""
TABLES: dict[str, dict[str, str | None]] = {
    "table1": {"imagenet100": None, "tiny-imagenet": None},
    "table2": {"mnist": None, "cifar10": None},
    "table3": {"cifar10": "stl10"},
}
"""Training data of each table, and what the encoder is measured on where it is other data."""
KERNELS = ("linear", "rbf", "laplacian", "rq")
PEERS = ("simclr", "swav", "moco", "byol", "dino", "simsiam", "barlow-twins")
LOSS = ("parametrization", "covariance", "include_diagonal", "threshold", "eps",
        "invariance_weight", "variance_weight", "covariance_weight")  # fmt: skip
"""What a recipe of the paper's says of the loss."""
PRINTED, SCALED = "as printed", "scaled"


def run(job: Job, name: str) -> list[Row]:
    """Run the cells of a table; write ``NAME.md``, ``.csv`` and ``.json``."""
    sources = TABLES[name]
    missing = job.missing([data for pair in sources.items() for data in pair if data is not None])
    here = {data: target for data, target in sources.items() if data not in missing and target not in missing}
    cells = [cell for data, target in here.items() for cell in _cells(job, data, target, peers=name == "table1")]
    rows = [_beside_the_paper(row) for row in job.rows(cells)]
    text = _markdown(rows, [target or data for data, target in sources.items()], missing)
    job.write(name, rows, text, missing=missing)
    return rows


def _cells(job: Job, data: str, target: str | None, *, peers: bool) -> list[Cell]:
    full = job.budget == "full"
    small = {"image_size": 64} if data == "imagenet100" and job.budget == "small" else {}
    cells = []
    for seed in job.seeds:
        shared: dict[str, Any] = {"data": data, "seed": seed, **small}

        def add(model: str, form: str, recipe: str, settings: dict[str, Any], shared: dict[str, Any] = shared) -> None:
            labels = {"name": model, "form": form}
            own = {**shared, **settings}
            cells.append(job.cell(labels, target, recipe if full else None, **own))

        ours = data if full else ""
        for kernel in KERNELS:
            printed = load_config(f"paper-{data}-{kernel}")
            of_loss = {setting: getattr(printed, setting) for setting in LOSS}
            add(kernel, PRINTED, f"paper-{data}-{kernel}", {"kernel": kernel, **of_loss})
            add(kernel, SCALED, ours, {"kernel": kernel})
        for peer in ("vicreg", *(PEERS if peers and (job.budget != "smoke" or data == "imagenet100") else ())):
            size = {"image_size": 64} if full and data == "tiny-imagenet" else {}
            add(peer, "", f"{peer}-{'imagenet100' if peers else data}", {"method": peer, **size})
        add("supervised", "", ours, {"method": "supervised"})
    return cells


def _beside_the_paper(row: Row) -> Row:
    """A row with the paper's number and ours less it, in percentage points."""
    measured_on = row["config"].get("target") or row["data"]
    paper = PAPER[measured_on].get(tables.name_of(row))
    known = isinstance(paper, float) and "probe" in row
    difference = round(100 * row["probe"] - float(paper), 2) if known and paper is not None else None
    return {**row, "measured_on": measured_on, "paper": paper, "difference": difference}


def _markdown(rows: Sequence[Row], measured_on: Sequence[str], missing: dict[str, str]) -> str:
    """A line for each model and form, three columns for each data set."""
    titles = "".join(f" {data} | the paper's | difference |" for data in measured_on)
    lines = [f"| model | form |{titles}", "|---" * (2 + 3 * len(measured_on)) + "|"]
    named = tables.groups(
        [{**row, "name": tables.name_of(row), "form": row.get("form", "")} for row in rows], "name", "form"
    )
    controls = ("raw pixels", "random encoder", "supervised")
    for name, form in sorted(named, key=lambda key: (key[0] not in controls, key[0] in KERNELS)):
        cells = []
        for data in measured_on:
            same = [row for row in named[name, form] if row["measured_on"] == data]
            paper = PAPER[data].get(name, "")
            known = [row["difference"] for row in same if row["difference"] is not None]
            cells += [tables.percent(same) if same else "", str(paper), f"{mean(known):+.1f}" if known else ""]
        lines.append(f"| {name} | {form} | {' | '.join(cells)} |")
    notes = [tables.note(rows)] if rows else []
    notes += [f"Left out: {sentence}" for sentence in missing.values()]
    return "\n".join([*lines, "", *notes, ""])
