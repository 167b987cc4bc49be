"""Which label-free criterion tells how well a probe would do? Many short runs on labelled data answer.

Every candidate of `kvicreg select` is trained on every data set and seed, measured without labels after 1, 2, 4 and 8
epochs, and probed at the end on training images that were held out. From that: the rank correlation of each criterion
with the probe, and the regret of choosing by it. Labels decide nothing but the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvicreg.data import first_images
from kvicreg.reproduction.cells import Cell, finished, run_cells
from kvicreg.selection.candidates import DEFAULT, Candidate
from kvicreg.selection.facts import facts
from kvicreg.selection.scores import study_criteria
from kvicreg.selection.trial import advance, finish, neighbours_of
from kvicreg.storage import write_atomically
from kvicreg.training.build import build_data
from kvicreg.training.config import TrainConfig

__all__ = ["EPOCHS", "run", "shared_config"]

EPOCHS = (1, 2, 4, 8)
"""After which a candidate is measured; it is trained for the last of them."""
Say = Callable[[str], None]


def shared_config(data: str, *, images: int, holdout: int, data_root: str | None = None) -> TrainConfig:
    """What all candidates share."""
    return TrainConfig(
        data=data, data_root=data_root, images=images, holdout=holdout, epochs=EPOCHS[-1], batch_size=256, width=0.5,
        projector_hidden=512, projector_outputs=512, precision="auto", probe_images=0, log_every=1000,
    )  # fmt: skip


def run(
    config: TrainConfig,
    out: Path,
    runs: Path,
    *,
    seeds: Sequence[int] = (0,),
    candidates: Sequence[Candidate] = DEFAULT,
    part: tuple[int, int] = (0, 1),
    say: Say = print,
) -> Path | None:
    """Train and measure what is not finished; write ``out/DATA.json`` once every cell is.

    Args:
        config: what all candidates share, `shared_config`.
        runs: where the run folders go: runs/DATA-CANDIDATE-SEED.
        part: (k, n): only every n-th cell, from the k-th on; the others are left to other processes.
    """
    name = Path(config.data).name
    cells = [
        Cell(
            f"{name}-{candidate.name}-{seed}",
            replace(candidate.of(config), seed=seed),
            {"candidate": candidate.name, "settings": candidate.settings},
        )
        for seed in seeds
        for candidate in candidates
    ]
    data = build_data(config)
    mine = cells[part[0] :: part[1]]
    for number, cell in enumerate(mine, 1):
        folder = runs / cell.name
        if finished(cell, runs, "validation") is not None or (folder / "failed.json").is_file():
            continue
        settings = replace(cell.config, out=str(folder))
        try:
            for epochs in EPOCHS:
                advance(settings, epochs * (len(data) // config.batch_size), data=data)
            finish(settings, data=data)
            row = run_cells([cell], runs, on="validation", say=lambda line: None)[0]
            say(f"{number}/{len(mine)} {cell.name}: probe {row['probe']:.4f}, k-NN {row['knn']:.4f}")
        except (ValueError, RuntimeError, ArithmeticError) as error:  # diverged: that is a result too
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / "failed.json", json.dumps({"error": str(error)}).encode())
            say(f"{number}/{len(mine)} {cell.name}: {error}")
    rows = [_row(cell, runs) for cell in cells]
    if None in rows:
        say(f"{name}: {rows.count(None)} of {len(cells)} cells are left to other processes")
        return None
    steps = [epochs * (len(data) // config.batch_size) for epochs in EPOCHS]
    content = {
        "data": name,
        "settings": {key: getattr(config, key) for key in _TOLD},
        "steps": steps,
        "facts": facts(first_images(data, min(2000, len(data))), config),
        "rows": _with_criteria([row for row in rows if row is not None], runs, steps),
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"
    write_atomically(path, json.dumps(content, indent=1, allow_nan=False).encode() + b"\n")
    return path


_TOLD = (
    "images", "holdout", "encoder", "width", "pool", "epochs", "batch_size", "optimizer", "learning_rate",
    "projector_layers", "projector_hidden", "projector_outputs",
)  # fmt: skip


def _row(cell: Cell, runs: Path) -> dict[str, Any] | None:
    """Accuracies of a cell, or why it has none; None while it is not finished."""
    about = {"candidate": cell.labels["candidate"], "settings": cell.labels["settings"], "seed": cell.config.seed}
    failed = runs / cell.name / "failed.json"
    if failed.is_file():
        return {**about, "cell": cell.name, **json.loads(failed.read_text())}
    found = finished(cell, runs, "validation")
    if found is None:
        return None
    accuracies = {key: round(found[key], 5) for key in ("probe", "probe_low", "probe_high", "knn")}
    return {**about, "cell": cell.name, **accuracies}


def _with_criteria(rows: list[dict[str, Any]], runs: Path, steps: Sequence[int]) -> list[dict[str, Any]]:
    """Rows with all criteria by step, those across candidates included; one seed's candidates are one study."""
    for seed in {row["seed"] for row in rows}:
        study = [row for row in rows if row["seed"] == seed and "error" not in row]
        for step in steps:
            folders = {row["candidate"]: runs / row["cell"] for row in study}
            measured = {n: json.loads((f / f"criteria-{step}.json").read_text()) for n, f in folders.items()}
            values = study_criteria(measured, {n: neighbours_of(f, step) for n, f in folders.items()})
            for row in study:
                kept = {name: float(f"{value:.6g}") for name, value in values[row["candidate"]].items()}
                row.setdefault("criteria", {})[str(step)] = kept
    return [{key: value for key, value in row.items() if key != "cell"} for row in rows]
