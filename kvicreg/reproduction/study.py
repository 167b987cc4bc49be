"""What the settings of the loss matter: each varied by itself around the default, scored on held-out training images.

The test sets play no part here. VICReg's three weights are tuned on the same images, over the grid of their two
ratios, so that the comparison on the test set is with VICReg at its best.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from kvicreg.reproduction import tables
from kvicreg.reproduction.cells import Cell
from kvicreg.reproduction.jobs import Job

__all__ = ["FAMILIES", "Variation", "chosen", "run"]

DATA = ("fashion-mnist", "cifar10")


class Variation(NamedTuple):
    """One setting changed: the factor it belongs to, its value as a table prints it, and the settings."""

    factor: str
    value: Any
    settings: dict[str, Any]


def _one(factor: str, setting: str, values: Sequence[Any]) -> list[Variation]:
    return [Variation(factor, value, {setting: value}) for value in values]


def _widths(values: Sequence[int]) -> list[Variation]:
    return [Variation("projector width", v, {"projector_hidden": v, "projector_outputs": v}) for v in values]


SIZES = [*_one("batch size", "batch_size", (64, 128, 512, 1024)), *_widths((128, 256, 1024, 2048, 4096))]
ENDS = _one("projector ends in", "projector_final", ("batch", "length"))
LOSS = [
    *_one("invariance weight", "invariance_weight", (0.25, 0.5, 2.0, 4.0)),
    *_one("variance weight", "variance_weight", (0.25, 0.5, 2.0, 4.0)),
    *_one("covariance weight", "covariance_weight", (0.0, 0.005, 0.1, 0.5)),
    *_one("threshold", "threshold", (0.8, 1.0, 1.25, 2.0, 3.0)),
    *_one("eps", "eps", (1e-6, 1e-2)),
    *_one("covariance form", "covariance", ("squared",)),
    *_one("diagonal", "include_diagonal", (True,)),
    *_one("parametrization", "parametrization", ("paper",)),
]
BANDWIDTH = [
    *_one("bandwidth, of the median", "bandwidth_multiple", (0.25, 0.5, 2.0, 4.0)),
    Variation("bandwidth rule", "smoothed", {"bandwidth_momentum": 0.9}),
    Variation("bandwidth rule", "1 / width", {"gamma": "1/width"}),
]
VICREG_WEIGHTS = [
    Variation("weights", f"{i:g}, 25, {c:g}", {"invariance_weight": i, "variance_weight": 25.0, "covariance_weight": c})
    for i in (5.0, 10.0, 25.0, 50.0)
    for c in (0.2, 1.0, 5.0)
    if (i, c) != (25.0, 1.0)
]
FAMILIES: dict[str, tuple[dict[str, Any], list[Variation]]] = {
    "linear": ({"kernel": "linear"}, [*LOSS, *ENDS, *SIZES]),
    "rbf": ({"kernel": "rbf"}, [*LOSS, *BANDWIDTH, *ENDS, *SIZES]),
    "vicreg": ({"method": "vicreg"}, [*VICREG_WEIGHTS, *ENDS, *SIZES]),
    "simclr": ({"method": "simclr"}, _one("temperature", "temperature", (0.1, 0.2, 0.5, 1.0))),
    "moco": ({"method": "moco"}, _one("temperature", "temperature", (0.07, 0.2, 0.5, 1.0))),
    "byol": ({"method": "byol"}, _one("target momentum", "target_momentum", (0.9, 0.97, 0.99, 0.996))),
    "barlow-twins": (
        {"method": "barlow-twins"},
        _one("redundancy weight", "redundancy_weight", (0.0051, 0.02, 0.1)),
    ),
    "kernel-simclr": ({"method": "kernel-simclr"}, _one("temperature", "temperature", (0.05, 0.1, 0.2, 0.5))),
    "kernel-barlow-twins": (
        {"method": "kernel-barlow-twins"},
        _one("redundancy weight", "redundancy_weight", (0.1, 0.3, 1.0)),
    ),
    "ssl-hsic": ({"method": "ssl-hsic"}, _one("spread weight", "spread_weight", (1.0, 3.0, 10.0))),
}
"""Settings of each, and what is varied of it; the default itself is run too."""
MAIN = ("linear", "rbf", "vicreg")


def run(
    job: Job, *, families: Sequence[str] = MAIN, data: Sequence[str] = DATA, seeds: Sequence[int] = (0,)
) -> dict[str, Any]:
    """Run the variations of these families; write ``study.md``, ``.csv``, ``.json`` and ``study-DATA.png``, ``.svg``.

    The JSON's "chosen" holds the best settings of every family, by the mean of the linear probe over the data sets.
    """
    unknown = set(families) - set(FAMILIES)
    if unknown:
        raise ValueError(f"families: there is no {sorted(unknown)[0]!r}; there are {', '.join(FAMILIES)}")
    missing = job.missing(data)
    cells = [c for d in data if d not in missing for f in families for s in seeds for c in _cells(job, f, d, s)]
    rows = job.rows(cells)
    best = {family: chosen(rows, family) for family in families}
    parts = [f"{tables.note(rows)}\n" if rows else "", *(f"Left out: {sentence}\n" for sentence in missing.values())]
    parts += tables.unfinished(sum("family" in row for row in rows), len(cells))
    for source in dict.fromkeys(row["data"] for row in rows):
        parts += [f"## {source}\n", f"{_table([row for row in rows if row['data'] == source])}\n"]
    job.write("study", rows, "\n".join(parts), missing=missing, chosen=best)
    if rows:
        from kvicreg.reproduction.study_figures import draw

        draw(rows, job.out)
    return best


def _cells(job: Job, family: str, data: str, seed: int) -> list[Cell]:
    base, variations = FAMILIES[family]
    shared = {"data": data, "seed": seed, **job.narrow, **base}
    usual = job.config(**shared)
    if job.budget == "smoke":  # one value of every factor, at sizes that its images allow
        variations = list(
            {v.factor: v for v in variations if v.factor not in ("batch size", "projector width")}.values()
        )
    cells = [job.cell({"family": family, "factor": "default", "value": "", "change": {}}, **shared)]
    for variation in variations:
        change = dict(variation.settings)
        if change.get("gamma") == "1/width":
            change["gamma"] = 1 / usual.projector_outputs
        labels = {"family": family, "factor": variation.factor, "value": variation.value, "change": change}
        cells.append(job.cell(labels, **{**shared, **change}))
    return cells


def chosen(rows: Sequence[dict[str, Any]], family: str) -> dict[str, Any]:
    """The change of the loss with the best linear probe, on average over the data sets; the network stays."""
    found = tables.groups([r for r in rows if r.get("family") == family and "probe" in r], "factor", "value")
    count = max((len(same) for same in found.values()), default=0)
    fair = {
        key: mean(row["probe"] for row in same)
        for key, same in found.items()
        if len(same) == count and key[0] not in ("batch size", "projector width", "projector ends in")
    }
    if not fair:
        return {}
    factor, value = best = max(fair, key=lambda key: fair[key])
    change: dict[str, Any] = found[best][0]["change"]
    return {"factor": factor, "value": value, "settings": change, "probe": round(fair[best], 4)}


def tuned(path: Path, family: str = "vicreg") -> dict[str, Any] | None:
    """The settings that a study's result file has chosen for a family; None without such a file."""
    if not path.is_file():
        return None
    best = json.loads(path.read_text())["chosen"].get(family)
    return None if not best else dict(best["settings"])


def _table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each value of each factor, a column for each family; controls last."""
    trained = [row for row in rows if "family" in row]
    families = list(dict.fromkeys(row["family"] for row in trained))
    of = tables.groups(trained, "factor", "value", "family")
    lines = [f"| factor | value | {' | '.join(families)} |", "|---" * (len(families) + 2) + "|"]
    for factor, value in dict.fromkeys((row["factor"], row["value"]) for row in trained):
        cells = [tables.percent(of[key]) if (key := (factor, value, f)) in of else "" for f in families]
        lines.append(f"| {factor} | {value} | {' | '.join(cells)} |")
    for (name,), same in tables.groups([row for row in rows if "family" not in row], "method").items():
        lines.append(f"| control | {name} | {' | '.join([tables.percent(same)] * len(families))} |")
    return "\n".join(lines)
