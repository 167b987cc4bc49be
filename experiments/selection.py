"""Which label-free criterion tells how well a probe would do? Many short runs on labelled data answer.

Every candidate of `kvicreg select` is trained on every data set and seed, measured without labels after 1, 2, 4 and 8
epochs, and probed at the end on training images that were held out. From that: the rank correlation of each criterion
with the probe, and the regret of choosing by it (`trials`). Labels decide nothing but the table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from torch import nn

from experiments import trials
from experiments.common import Cell, Experiment, Job, Result, Row, tables, write
from experiments.common.drawing import BLUE, GREY, ORANGE, RED, panels
from experiments.common.versions import remark
from kvicreg.data import first_images
from kvicreg.runs import RunFolder
from kvicreg.selection.candidates import read_candidates
from kvicreg.selection.criteria import study_criteria
from kvicreg.selection.facts import facts
from kvicreg.selection.trial import advance, finish, neighbours_after

EPOCHS = (1, 2, 4, 8)
"""After which a candidate is measured; it is trained for the last of them."""
SHARED = (
    "images", "holdout", "encoder", "width", "pool", "epochs", "batch_size", "optimizer", "learning_rate",
    "projector_layers", "projector_hidden", "projector_outputs",
)  # fmt: skip
SCORES: tuple[str, ...] = ("probe", "probe_low", "probe_high", "knn")


@dataclass(frozen=True)
class Selection(Experiment, name="selection"):
    """Measure which label-free criterion tells how well a probe would do, and the regret of choosing by it.

    Trains every candidate of kvicreg select, 20 runs of 8 epochs for each data set and seed, a minute each on one core.

    Example:
        python -m experiments selection --out docs/results --evidence kvicreg/selection/evidence.json
    """

    split = "validation"
    usual_seeds = (0,)
    page = "selection.md"
    columns = ("probe", "criteria")
    with_controls = False
    failures = (ValueError, RuntimeError, ArithmeticError)  # diverged: that is a result too
    few = {"data": ("mnist",), "candidates": ("rbf", "linear", "rbf+linear")}

    data: tuple[str, ...] = ("mnist", "fashion-mnist", "cifar10")
    """Labelled data sets."""
    candidates: tuple[str, ...] = ()
    """Candidates of kvicreg select; all unless given."""
    evidence: Path | None = None
    """File to write what advice and the default criterion rest on."""

    def cells(self, job: Job) -> list[Cell]:
        cells = []
        for data, seed, candidate in product(self.data, job.seeds, read_candidates(self.candidates)):
            labels, changes = {"candidate": candidate.name, "settings": candidate.settings}, candidate.settings
            cells.append(job.cell(labels, variant="selection", data=data, seed=seed, epochs=EPOCHS[-1], **changes))
        return cells

    def earlier_rows(self, job: Job, cells: Sequence[Cell]) -> dict[str, list[Row]]:
        """The trials that a result file has with the same settings and candidates; criteria compare them all."""
        earlier: dict[str, list[Row]] = {}
        for (data, seed), trial in _trials(cells).items():
            path = job.out / "selection" / f"{data}.json"
            result = json.loads(path.read_text()) if path.is_file() else {"settings": None, "rows": []}
            of = {(row["candidate"], str(row["settings"])): row for row in result["rows"] if row["seed"] == seed}
            keys = {(cell.labels["candidate"], str(cell.labels["settings"])): cell for cell in trial}
            if set(of) >= set(keys) and result["settings"] == _shared(trial[0]):
                for key, cell in keys.items():
                    about = {"failed": of[key]["error"]} if "error" in of[key] else {}
                    earlier[cell.identity] = [{**of[key], **about, "method": "", "on": cell.on, "config": cell.config}]
        return earlier

    def train(self, job: Job, cell: Cell, folder: Path) -> None:
        settings, data = cell.settings.replace(out=str(folder)), cell.settings.data.load()
        for step in _steps(cell, len(data)):
            advance(settings, step, data=data)
        finish(settings, data=data)

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        run, steps = RunFolder(job.runs / cell.name), _steps(cell, len(cell.settings.data.load()))
        return super().measure(job, cell, encoder) | {"criteria": {str(step): run.criteria(step) for step in steps}}

    def write(self, result: Result) -> None:
        """Write selection/DATA.json for each data set, and the evidence, when all are complete."""
        job, pairs = result.job, list(zip(result.cells, result.rows, strict=False))
        if len(result.rows) < len(result.cells):
            job.say("\n".join(result.left_out() + result.unfinished()))
            return
        for data in dict.fromkeys(cell.settings.data.short_name for cell in result.cells):
            both = [(cell, row) for cell, row in pairs if cell.settings.data.short_name == data]
            if any("scored_on" in row for _, row in both):  # measured, and not from the file
                write(job.out / "selection" / f"{data}.json", _content(job, both))
        if self.evidence is not None:
            write(self.evidence, trials.evidence(trials.read(job.out / "selection")))
        job.say(self.for_page(job.out))

    def figure(self, result: Result) -> None:
        if len(result.rows) == len(result.cells):
            draw(trials.read(result.job.out / "selection"), result.job.out / "selection" / "selection")

    @classmethod
    def for_page(cls, results: Path) -> str:
        remarks = {path.stem: remark(path) for path in sorted((results / "selection").glob("*.json"))}
        lines = [f"{name}:{text}" for name, text in remarks.items() if text]
        return "\n\n".join([markdown(trials.read(results / "selection")), *lines])


def _shared(cell: Cell) -> dict[str, Any]:
    return {key: cell.config[key] for key in SHARED}


def _steps(cell: Cell, images: int) -> list[int]:
    return [epochs * (images // cell.settings.schedule.batch_size_for(images)) for epochs in EPOCHS]


def _trials(cells: Sequence[Cell]) -> dict[tuple[str, int], list[Cell]]:
    of: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        of.setdefault((cell.settings.data.short_name, cell.settings.engine.seed), []).append(cell)
    return of


def _content(job: Job, both: Sequence[tuple[Cell, Row]]) -> dict[str, Any]:
    """The result file of a data set: rows with all criteria by step, those across candidates of a trial included."""
    first, rows = both[0][0], list[dict[str, Any]]()
    data = first.settings.data.load()
    steps = _steps(first, len(data))
    of_trial: dict[int, dict[str, Any]] = {}
    for cell, row in both:
        outcome: dict[str, Any] = {key: round(row[key], 5) for key in SCORES if key in row}
        outcome |= {"error": row["failed"]} if "failed" in row else {}
        rows.append({**cell.labels, "seed": row["seed"], **outcome, "fingerprint": row["fingerprint"]})
        if "failed" not in row:
            of_trial.setdefault(row["seed"], {})[cell.labels["candidate"]] = (rows[-1], row, job.runs / cell.name)
    for trial, step in product(of_trial.values(), steps):
        measured = {name: row["criteria"][str(step)] for name, (_, row, _) in trial.items()}
        near = {name: neighbours_after(RunFolder(folder), step) for name, (_, _, folder) in trial.items()}
        values = study_criteria(measured, near)
        for name, (written, *_) in trial.items():
            rounded = {criterion: float(f"{value:.6g}") for criterion, value in values[name].items()}
            written.setdefault("criteria", {})[str(step)] = rounded
    about = {"data": first.settings.data.short_name, "settings": _shared(first), "steps": steps}
    return {**about, "facts": facts(first_images(data, min(2000, len(data))), first.settings), "rows": rows}


def markdown(results: trials.Results) -> str:
    """All tables of docs/selection.md."""
    runs = sum(len(trial) for result in results.values() for trial in trials.trials(result))
    counts = {data: len(trials.trials(result)) for data, result in results.items()}
    seeds = ", ".join(f"{data} with {count} seed{'s' if count > 1 else ''}" for data, count in counts.items())
    first = next(iter(results.values()))
    settings = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in first["settings"].items())
    values = {data: trials.quality(result) for data, result in results.items()}
    candidates = (
        [name, *(f"{100 * values[d][name]:.1f}" if name in values[d] else "failed" for d in results)]
        for name in dict.fromkeys(row["candidate"] for result in results.values() for row in result["rows"])
    )
    parts = [
        f"{runs} runs: {len(trials.quality(first))} candidates, {seeds}. Shared: {settings}.",
        "**Rank correlation with the probe** (Spearman / Kendall) over the candidates, at the end of training:",
        _correlation_table(results),
        "**Regret** in points: the best candidate's probe minus that of the one `kvicreg select` would take:",
        _regret_table(results),
        "**Nothing of a data set's own labels used**: the criterion is the one that is best on the other data sets, "
        "applied to this one:",
        _left_out_table(results),
        "**The candidates**, linear probe in percent on held-out training images, mean over seeds:",
        tables.markdown(["candidate", *results], candidates),
    ]
    return "\n\n".join(parts)


def _correlation_table(results: trials.Results) -> str:
    spearman, kendall = trials.correlations(results), trials.correlations(results, "kendall")
    lines = [
        [name, *(f"{values[d]:+.2f} / {kendall[name][d]:+.2f}" for d in results), f"{mean(values.values()):+.2f}"]
        for name, values in sorted(spearman.items(), key=lambda item: -mean(item[1].values()))
    ]
    return tables.markdown(["criterion", *results, "mean Spearman"], lines)


def _regret_table(results: trials.Results) -> str:
    rows = dict(sorted(trials.regrets(results).items(), key=lambda item: mean(item[1].values())))
    rows["always RBF"] = {data: trials.regret_of_rbf(result) for data, result in results.items()}
    numbers = {name: [*(values[d] for d in results), mean(values.values())] for name, values in rows.items()}
    lines = ([name, *(f"{100 * value:.2f}" for value in values)] for name, values in numbers.items())
    return tables.markdown(["criterion", *results, "mean"], lines)


def _left_out_table(results: trials.Results) -> str:
    honest, keys = trials.left_out(results), ("regret", "regret_of_rbf")
    lines: list[list[Any]] = [
        [data, row["criterion"], ", ".join(dict.fromkeys(row["chosen"])), row["best"], *(row[key] for key in keys)]
        for data, row in honest.items()
    ]
    lines += [["mean", "", "", "", *(mean(row[key] for row in honest.values()) for key in keys)]] if honest else []
    titles = ["data", "criterion", "chosen", "best candidate", "regret", "regret of always RBF"]
    return tables.markdown(titles, ([*line[:4], *(f"{100 * value:.2f}" for value in line[4:])] for line in lines))


def draw(results: trials.Results, path: Path) -> None:
    """A panel for each data set, a dot for each run; what is chosen without labels is ringed."""
    criterion = trials.best_criterion(results)
    worth = trials.correlations(results)[criterion]
    width = 1 + 5.2 * len(results)
    title = f"Choosing without labels: agreement of {criterion} with the probe"
    detail = "Each dot is a candidate at the end of its short training. No label had a part in the horizontal axis."
    with panels(
        path, (width, 5.4), title, detail, len(results), (0.9 / width, 0.99, 0.76, 0.22, 0.22), sharey=False
    ) as every:
        for axes, (data, result) in zip(every, results.items(), strict=True):
            last, best = str(result["steps"][-1]), trials.best_candidate(result)
            for trial in trials.trials(result):
                at = {row["candidate"]: (row["criteria"][last][criterion], 100 * row["probe"]) for row in trial}
                axes.scatter(*zip(*at.values(), strict=True), color=GREY, s=26, zorder=2)
                axes.scatter(*at["rbf"], color=BLUE, s=60, zorder=3, label="rbf")
                axes.scatter(*at[best], color=ORANGE, s=60, zorder=3, label=f"best: {best}")
                chosen = trials.selected(trial, criterion, result["steps"])
                axes.plot(*at[chosen], "o", markersize=14, fillstyle="none", color=RED, label=f"chosen: {chosen}")
            axes.set(title=f"{data}: rank correlation {worth[data]:+.2f}", xlabel=criterion)
            axes.grid(alpha=0.25)
            once = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 3, "columnspacing": 1}
            axes.legend(once.values(), once.keys(), fontsize=9, handletextpad=0.2, **below)
        every[0].set_ylabel("linear probe, %")
