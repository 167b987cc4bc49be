"""The defaults on trial: one triple of weights for every kernel against VICReg, tuned and as published, on test sets.

Equal budget for all; raw pixels, the untrained encoder and the encoder trained with labels stand beside them. Then, on
one data set, the batch size, the width of the embeddings and the number of training images vary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from kvicreg.reproduction import tables
from kvicreg.reproduction.cells import Cell
from kvicreg.reproduction.jobs import Job
from kvicreg.reproduction.study import tuned
from kvicreg.reproduction.tables import Row

__all__ = ["KERNELS", "findings", "run"]

DATA = ("mnist", "fashion-mnist", "cifar10")
KERNELS = ("linear", "polynomial", "rbf", "laplacian", "rq", "rbf+linear")
PUBLISHED, TUNED = "vicreg, published", "vicreg, tuned"
GRIDS: dict[str, dict[str, tuple[int, ...]]] = {
    "smoke": {"batch size": (32, 64), "projector width": (16, 32), "images": (64, 128)},
    "small": {"batch size": (64, 256, 1024), "projector width": (128, 512, 2048), "images": (500, 2_000, 10_000)},
    "full": {"batch size": (64, 256, 1024), "projector width": (128, 512, 2048), "images": (500, 2_000, 10_000)},
}


def run(
    job: Job,
    *,
    data: Sequence[str] = DATA,
    seeds: Sequence[int] = (0, 1, 2),
    grid_data: str = "cifar10",
    grid_seeds: Sequence[int] = (0,),
    study: Path | None = None,
) -> dict[str, Any]:
    """Run everything; write ``proof.md``, ``.csv``, ``.json`` and the figures proof and proof-grids.

    Args:
        grid_data: where batch size, width and number of images vary; "" for nowhere.
        study: result file of the parametrization study, which has VICReg's tuned weights; by default out/study.json.
    """
    study = study or job.out / "study.json"
    weights = tuned(study)
    if weights is None:
        job.say(f"{TUNED} is left out: there is no {study} to take its weights from (kvicreg reproduce study)")
    contenders = _contenders(weights)
    missing = job.missing(list(dict.fromkeys([*data, *([grid_data] if grid_data else [])])))
    here = [name for name in data if name not in missing]
    main = [
        job.cell({"name": name, "grid": "", "value": ""}, data=source, seed=seed, **settings)
        for source in here
        for seed in seeds
        for name, settings in {**contenders, "supervised": {"method": "supervised"}}.items()
    ]
    varied = [] if not grid_data or grid_data in missing else _grid(job, grid_data, grid_seeds, contenders)
    rows = job.rows(main)
    grids = job.rows(varied)
    found = findings(rows, grids)
    done = sum("name" in row for row in [*rows, *grids])
    text = "\n".join([*tables.unfinished(done, len(main) + len(varied)), _markdown(rows, grids, found, missing)])
    kept = [*rows, *(row for row in grids if row.get("grid"))]
    job.write("proof", kept, text, missing=missing, tuned_on=study.name, findings=found)
    if rows:
        from kvicreg.reproduction.proof_figures import draw, draw_grids

        draw(rows, job.out / "proof")
        if grids:
            draw_grids(grids, job.out / "proof-grids")
    return found


def _contenders(weights: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    """Name and settings of everything that is compared; kernels have the loss's one default triple of weights."""
    found: dict[str, dict[str, Any]] = {PUBLISHED: {"method": "vicreg"}}
    if weights is not None:
        found[TUNED] = {"method": "vicreg", **weights}
    return found | {kernel: {"kernel": kernel} for kernel in KERNELS}


def _grid(job: Job, data: str, seeds: Sequence[int], contenders: dict[str, dict[str, Any]]) -> list[Cell]:
    cells = []
    for grid, values in GRIDS[job.budget].items():
        for value in values:
            for seed in seeds:
                for name, settings in contenders.items():
                    own = {**_varied(job, grid, value), **settings}
                    cells.append(job.cell({"name": name, "grid": grid, "value": value}, data=data, seed=seed, **own))
    return cells


def _varied(job: Job, grid: str, value: int) -> dict[str, Any]:
    """The settings of a grid's value; fewer images are seen more often, for as many steps in all."""
    usual = job.config()
    if grid == "batch size":
        return {"batch_size": value}
    if grid == "projector width":
        return {"projector_hidden": value, "projector_outputs": value}
    steps = usual.epochs * ((usual.images or 45_000) // usual.batch_size)
    return {"images": value, "epochs": round(steps / (value // usual.batch_size))}


def findings(rows: Sequence[Row], grids: Sequence[Row]) -> dict[str, Any]:
    """The two claims, answered: is the best fixed kernel above tuned VICReg, and is any below the random encoder?"""
    scores = {key: mean(r["probe"] for r in same) for key, same in _by_name(rows).items()}
    sources = list(dict.fromkeys(row["data"] for row in rows))
    rival = TUNED if any(name == TUNED for _, name in scores) else PUBLISHED
    whole = [k for k in KERNELS if sources and all((source, k) in scores for source in sources)]
    best = max(whole, key=lambda kernel: mean(scores[source, kernel] for source in sources), default=None)
    margins = {
        source: {kernel: round(scores[source, kernel] - scores[source, rival], 4) for kernel in whole}
        for source in sources
        if (source, rival) in scores
    }
    random = {key[0]: score for key, score in scores.items() if key[1] == "random encoder"}
    below = [
        f"{row['name']} at {row['grid']} {row['value']}, seed {row['seed']}"
        for row in grids
        if row.get("grid") and row["name"] in KERNELS and row.get("probe", 0) < random.get(row["data"], 0)
    ]
    return {
        "rival": rival,
        "best_fixed_kernel": best,
        "margin_of_every_kernel_over_rival": margins,
        "kernels_above_rival_everywhere": [k for k in whole if margins and all(m[k] > 0 for m in margins.values())],
        "best_fixed_kernel_is_above_everywhere": bool(best and margins and all(m[best] > 0 for m in margins.values())),
        "kernels_below_the_random_encoder_in_the_grids": below,
    }


def _by_name(rows: Sequence[Row]) -> dict[tuple[Any, ...], list[Row]]:
    named = [{**row, "name": tables.name_of(row)} for row in rows if "probe" in row]
    return tables.groups(named, "data", "name")


def _margins(rows: Sequence[Row], rival: str) -> str:
    """What every kernel has above the rival with the same seed: the mean, and the least and most of the seeds."""
    of = {(row["data"], tables.name_of(row), row["seed"]): row for row in rows if "probe" in row}
    sources = list(dict.fromkeys(source for source, name, _ in of if name == rival))
    columns = [(source, score) for source in sources for score in ("probe", "knn")]
    lines = [f"| | {' | '.join(f'{source}, {tables.SCORES[score]}' for source, score in columns)} |"]
    lines += ["|---" * (len(columns) + 1) + "|"]
    for kernel in KERNELS:
        cells = []
        for source, score in columns:
            both = [seed for d, n, seed in of if (d, n) == (source, kernel) and (source, rival, seed) in of]
            found = [100 * (of[source, kernel, s][score] - of[source, rival, s][score]) for s in both]
            cells.append(f"{mean(found):+.1f} ({min(found):+.1f} to {max(found):+.1f})" if found else "")
        lines.append(f"| {kernel} | {' | '.join(cells)} |")
    return "\n".join(lines) if columns else ""


def _markdown(rows: Sequence[Row], grids: Sequence[Row], found: dict[str, Any], missing: dict[str, str]) -> str:
    parts = [tables.note(rows), ""] if rows else []
    parts += [f"Left out: {sentence}\n" for sentence in missing.values()]
    if found["best_fixed_kernel"]:
        above = found["kernels_above_rival_everywhere"]
        below = found["kernels_below_the_random_encoder_in_the_grids"]
        parts += [
            f"By linear probe, mean over seeds, the kernel best on average is {found['best_fixed_kernel']}; it is "
            f"{'' if found['best_fixed_kernel_is_above_everywhere'] else 'not '}above {found['rival']} on every data "
            f"set. Those that are: {', '.join(above) or 'no kernel'}. Below the untrained encoder in the grids: "
            f"{'; '.join(below) or 'no kernel'}.\n"
        ]
    if margins := _margins(rows, found["rival"]):
        parts += [f"### Above {found['rival']}, in points, seed by seed\n", margins, ""]
    for source in dict.fromkeys(row["data"] for row in rows):
        parts += [f"### {source}\n", tables.summary([row for row in rows if row["data"] == source]), ""]
    for (grid,), same in tables.groups([row for row in grids if row.get("grid")], "grid").items():
        parts += [f"### {grid} ({same[0]['data']})\n", tables.grid(same, "name", "value"), ""]
    return "\n".join(parts)
