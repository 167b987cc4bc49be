"""Which label-free criterion tells how well a probe would do? Many short runs on labelled data answer.

Every candidate of `kvicreg select` is trained on every data set and seed, measured without labels after 1, 2, 4 and 8
epochs, and probed at the end on training images that were held out. From that: the rank correlation of each criterion
with the probe, and the regret of choosing by it (`trials`). Labels decide nothing but the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from torch import nn

from experiments import trials
from experiments.common import Cell, Job, Result, Row, tables, write
from experiments.common.drawing import BLUE, GREY, ORANGE, RED, panels
from experiments.common.folder import FolderExperiment, Pairs, in_words
from experiments.common.versions import remark
from kvicreg.data import first_images
from kvicreg.runs import RunFolder
from kvicreg.selection.candidates import read_candidates
from kvicreg.selection.criteria import study_criteria
from kvicreg.selection.facts import facts
from kvicreg.selection.trial import advance, finish, neighbours_after
from kvicreg.storage import counted

EPOCHS = (1, 2, 4, 8)
"""After which a candidate is measured; it is trained for the last of them."""
SCORES = ("probe", "probe_low", "probe_high", "knn")


@dataclass(frozen=True)
class Selection(FolderExperiment, name="selection"):
    """Measure which label-free criterion tells how well a probe would do, and the regret of choosing by it.

    Trains every candidate of kvicreg select, 20 runs of 8 epochs for each data set and seed, a minute each on one core.

    Example:
        python -m experiments selection --out docs/results --evidence kvicreg/selection/evidence.json
    """

    former = True
    split = "validation"
    usual_seeds = (0,)
    page = "selection.md"
    columns = ("probe", "criteria")
    shared = (
        "images", "holdout", "encoder", "width", "pool", "epochs", "batch_size", "optimizer", "learning_rate",
        "projector_layers", "projector_hidden", "projector_outputs",
    )  # fmt: skip
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

    def file_of(self, cell: Cell) -> str:
        return cell.settings.data.short_name

    def train(self, job: Job, cell: Cell, folder: Path, **more: Any) -> None:
        settings, data = cell.settings.replace(out=str(folder)), cell.settings.data.load()
        for step in _steps(cell):
            advance(settings, step, data=data)
        finish(settings, data=data)

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        run = RunFolder(job.runs / cell.name)
        criteria = {str(step): run.criteria(step) for step in _steps(cell)}
        return super().measure(job, cell, encoder) | {"criteria": criteria}

    def content(self, job: Job, pairs: Pairs) -> dict[str, Any]:
        """The settings, and rows with all criteria by step, those across candidates of a trial included."""
        first, rows = pairs[0][0], list[Row]()
        of_trial: dict[int, dict[str, Any]] = {}
        for cell, row in pairs:
            rows.append(self.line(cell, row, **{key: round(row[key], 5) for key in SCORES if key in row}))
            if "failed" not in row:
                of_trial.setdefault(row["seed"], {})[cell.labels["candidate"]] = (rows[-1], row, job.runs / cell.name)
        for trial, step in product(of_trial.values(), _steps(first)):
            measured = {name: row["criteria"][str(step)] for name, (_, row, _) in trial.items()}
            near = {name: neighbours_after(RunFolder(folder), step) for name, (_, _, folder) in trial.items()}
            for name, values in study_criteria(measured, near).items():
                rounded = {criterion: float(f"{value:.6g}") for criterion, value in values.items()}
                trial[name][0].setdefault("criteria", {})[str(step)] = rounded
        data = first.settings.data.load()
        about = {"data": self.file_of(first), "settings": self.settings_of(first), "steps": _steps(first)}
        return {**about, "facts": facts(first_images(data, min(2000, len(data))), first.settings), "rows": rows}

    def write(self, result: Result) -> None:
        super().write(result)
        if self.evidence is not None and len(result.rows) == len(result.cells):
            write(self.evidence, trials.evidence(trials.read(result.job.out / "selection")))

    def figure(self, result: Result) -> None:
        if len(result.rows) == len(result.cells):
            draw(trials.read(result.job.out / "selection"), result.job.out / "selection" / "selection")

    @classmethod
    def for_page(cls, results: Path) -> str:
        remarks = {path.stem: remark(path) for path in sorted((results / "selection").glob("*.json"))}
        lines = [f"{name}:{text}" for name, text in remarks.items() if text]
        return "\n\n".join([markdown(trials.read(results / "selection")), *lines])


def _steps(cell: Cell) -> list[int]:
    images = len(cell.settings.data.load())
    return [epochs * (images // cell.settings.schedule.batch_size_for(images)) for epochs in EPOCHS]


def markdown(results: trials.Results) -> str:
    """All tables of docs/selection.md."""
    runs = sum(len(trial) for result in results.values() for trial in trials.trials(result))
    counts = {data: len(trials.trials(result)) for data, result in results.items()}
    seeds = ", ".join(f"{data} with {counted(count, 'seed')}" for data, count in counts.items())
    first = next(iter(results.values()))
    values = {data: trials.quality(result) for data, result in results.items()}
    candidates = (
        [name, *(f"{100 * values[d][name]:.1f}" if name in values[d] else "failed" for d in results)]
        for name in dict.fromkeys(row["candidate"] for result in results.values() for row in result["rows"])
    )
    parts = [
        f"{runs} runs: {len(trials.quality(first))} candidates, {seeds}. Shared: {in_words(first['settings'])}.",
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
    lines = ([name, *(f"{100 * v:.2f}" for v in (*by.values(), mean(by.values())))] for name, by in rows.items())
    return tables.markdown(["criterion", *results, "mean"], lines)


def _left_out_table(results: trials.Results) -> str:
    honest = trials.left_out(results)
    lines = [
        [data, row["criterion"], ", ".join(dict.fromkeys(row["chosen"])), row["best"]] for data, row in honest.items()
    ]
    costs = [(row["regret"], row["regret_of_rbf"]) for row in honest.values()]
    if honest:
        lines, costs = [*lines, ["mean", "", "", ""]], [*costs, tuple(map(mean, zip(*costs, strict=True)))]
    titles = ["data", "criterion", "chosen", "best candidate", "regret", "regret of always RBF"]
    both = zip(lines, costs, strict=True)
    return tables.markdown(titles, ([*line, *(f"{100 * value:.2f}" for value in cost)] for line, cost in both))


def draw(results: trials.Results, path: Path) -> None:
    """A panel for each data set, a dot for each run; what is chosen without labels is ringed."""
    criterion = trials.best_criterion(results)
    worth = trials.correlations(results)[criterion]
    title = f"Choosing without labels: agreement of {criterion} with the probe"
    detail = "Each dot is a candidate at the end of its short training. No label had a part in the horizontal axis."
    with panels(path, (1 + 5.2 * len(results), 5.4), title, detail, len(results)) as ((*every,),):
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
            axes.grid()
            once = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12), "ncols": 3, "columnspacing": 1}
            axes.legend(once.values(), once.keys(), fontsize=9, handletextpad=0.2, **below)
        every[0].set_ylabel("linear probe, %")
