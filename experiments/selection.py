"""Which label-free criterion tells how well a probe would do? Many short runs on labelled data answer.

Every candidate of `kvicreg select` is trained on every data set and seed, measured without labels after 1, 2, 4 and 8
epochs, and probed at the end on training images that were held out. From that: the rank correlation of each criterion
with the probe, and the regret of choosing by it. Labels decide nothing but the table. A trial is one data set and one
seed; the quality of a candidate on a data set is its probe's accuracy, the mean over the seeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from scipy.stats import kendalltau, spearmanr
from torch import nn

from experiments.common import (
    BLUE,
    GREY,
    ORANGE,
    RED,
    Cell,
    Experiment,
    Job,
    Result,
    Row,
    panels,
    tables,
    write,
)  # fmt: skip
from experiments.common.versions import remark
from kvicreg.data import first_images
from kvicreg.runs import RunFolder
from kvicreg.selection.candidates import DEFAULT
from kvicreg.selection.criteria import CRITERIA, combination, study_criteria
from kvicreg.selection.facts import facts
from kvicreg.selection.halving import order, sizes
from kvicreg.selection.trial import advance, finish, neighbours_after

EPOCHS = (1, 2, 4, 8)
"""After which a candidate is measured; it is trained for the last of them."""
SHARED = (
    "images", "holdout", "encoder", "width", "pool", "epochs", "batch_size", "optimizer", "learning_rate",
    "projector_layers", "projector_hidden", "projector_outputs",
)  # fmt: skip
Results = dict[str, dict[str, Any]]
Trial = list[dict[str, Any]]


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
    candidates: tuple[str, ...] = tuple(candidate.name for candidate in DEFAULT)
    """Which candidates of kvicreg select."""
    evidence: Path | None = None
    """File to write what advice and the default criterion rest on."""

    def cells(self, job: Job) -> list[Cell]:
        settings = {candidate.name: candidate.settings for candidate in DEFAULT}
        unknown = set(self.candidates) - set(settings)
        if unknown:
            raise ValueError(f"candidates: there is no {sorted(unknown)[0]!r}; there are {', '.join(settings)}")
        return [
            job.cell(
                {"candidate": name, "settings": settings[name]},
                variant="selection",
                data=data,
                seed=seed,
                epochs=EPOCHS[-1],
                **settings[name],
            )
            for data in self.data
            for seed in job.seeds
            for name in self.candidates
        ]

    def known(self, job: Job, cells: Sequence[Cell]) -> dict[str, list[Row]]:
        """The trials that a result file has with the same settings and candidates; criteria compare them all."""
        known: dict[str, list[Row]] = {}
        for (data, seed), trial in _trials(cells).items():
            path = job.out / "selection" / f"{data}.json"
            result = json.loads(path.read_text()) if path.is_file() else {"settings": None, "rows": []}
            of = {(row["candidate"], json.dumps(row["settings"])): row for row in result["rows"] if row["seed"] == seed}
            keys = {(cell.labels["candidate"], json.dumps(cell.labels["settings"])): cell for cell in trial}
            if set(of) >= set(keys) and result["settings"] == _shared(trial[0]):
                for key, cell in keys.items():
                    about = {"failed": of[key]["error"]} if "error" in of[key] else {}
                    known[cell.identity] = [{**of[key], **about, "method": "", "on": cell.on, "config": cell.config}]
        return known

    def train(self, job: Job, cell: Cell, folder: Path) -> None:
        settings = cell.settings.replace(out=str(folder))
        data = settings.data.load()
        for epochs in EPOCHS:
            advance(settings, epochs * (len(data) // settings.schedule.batch_size), data=data)
        finish(settings, data=data)

    def measure(self, job: Job, cell: Cell, encoder: nn.Module) -> Row:
        run, steps = RunFolder(job.runs / cell.name), _steps(cell)
        return super().measure(job, cell, encoder) | {"criteria": {str(step): run.criteria(step) for step in steps}}

    def write(self, result: Result) -> None:
        """Write selection/DATA.json for each data set that is complete, and the figure when all are."""
        job = result.job
        if len(result.rows) < len(result.cells):
            job.say("\n".join(result.left_out() + result.unfinished()))
            return
        pairs = list(zip(result.cells, result.rows, strict=True))
        for name in dict.fromkeys(cell.settings.data.short_name for cell in result.cells):
            both = [(cell, row) for cell, row in pairs if cell.settings.data.short_name == name]
            if any("on" in row and "scored_on" in row for _, row in both):  # measured, and not from the file
                write(job.out / "selection" / f"{name}.json", _content(job, both))
        if self.evidence is not None:
            write(self.evidence, evidence(read(job.out / "selection")))
        job.say(self.for_page(job.out))

    def figure(self, result: Result) -> None:
        if len(result.rows) == len(result.cells):
            draw(read(result.job.out / "selection"), result.job.out / "selection" / "selection")

    @classmethod
    def for_page(cls, results: Path) -> str:
        remarks = {path.stem: remark(path) for path in sorted((results / "selection").glob("*.json"))}
        lines = [f"{name}:{text}" for name, text in remarks.items() if text]
        return "\n\n".join([markdown(read(results / "selection")), *lines])


def _shared(cell: Cell) -> dict[str, Any]:
    return {key: cell.config[key] for key in SHARED}


def _trials(cells: Sequence[Cell]) -> dict[tuple[str, int], list[Cell]]:
    trials: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        trials.setdefault((cell.settings.data.short_name, cell.settings.engine.seed), []).append(cell)
    return trials


def _steps(cell: Cell) -> list[int]:
    count = len(cell.settings.data.load()) // cell.settings.schedule.batch_size
    return [epochs * count for epochs in EPOCHS]


def _content(job: Job, both: Sequence[tuple[Cell, Row]]) -> dict[str, Any]:
    """The result file of a data set: rows with all criteria by step, those across candidates of a trial included."""
    settings, steps = both[0][0].settings, _steps(both[0][0])
    data = settings.data.load()
    rows = []
    for cell, row in both:
        about = {**cell.labels, "seed": cell.settings.engine.seed}
        numbers = {key: round(row[key], 5) for key in ("probe", "probe_low", "probe_high", "knn") if key in row}
        outcome = {"error": row["failed"]} if "failed" in row else numbers
        rows.append({**about, **outcome, "fingerprint": row["fingerprint"]})
    for seed in {row["seed"] for row in rows}:
        trial = {cell.labels["candidate"]: (cell, row) for cell, row in both if cell.settings.engine.seed == seed}
        trained = {name: pair for name, pair in trial.items() if "failed" not in pair[1]}
        for step in map(str, steps):
            measured = {name: row["criteria"][step] for name, (_, row) in trained.items()}
            near = {
                name: neighbours_after(RunFolder(job.runs / cell.name), int(step))
                for name, (cell, _) in trained.items()
            }
            values = study_criteria(measured, near)
            for row in rows:
                if row["seed"] == seed and "error" not in row:
                    rounded = {name: float(f"{value:.6g}") for name, value in values[row["candidate"]].items()}
                    row.setdefault("criteria", {})[step] = rounded
    about = {"data": settings.data.short_name, "settings": _shared(both[0][0]), "steps": steps}
    return {**about, "facts": facts(first_images(data, min(2000, len(data))), settings), "rows": rows}


# --------------------------------------------------------------------------- what the result files say


def read(folder: Path) -> Results:
    """The result files of all data sets, by name."""
    results = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    if not results:
        raise FileNotFoundError(f"{folder} holds no results: python -m experiments selection writes them")
    return results


def trials(result: Mapping[str, Any]) -> list[Trial]:
    """The candidates that could be trained, seed by seed."""
    seeds = sorted({row["seed"] for row in result["rows"]})
    return [[row for row in result["rows"] if row["seed"] == seed and "error" not in row] for seed in seeds]


def quality(result: Mapping[str, Any]) -> dict[str, float]:
    """The mean probe of each candidate over the seeds."""
    of = tables.groups([row for row in result["rows"] if "error" not in row], "candidate")
    return {name: mean(row["probe"] for row in same) for (name,), same in of.items()}


def best_candidate(result: Mapping[str, Any]) -> str:
    """The candidate of the highest quality."""
    values = quality(result)
    return max(values, key=lambda name: values[name])


def correlations(results: Results, measure: str = "spearman") -> dict[str, dict[str, float]]:
    """Rank correlation of each criterion at the end with the probe: criterion -> data -> mean over seeds."""
    correlate = spearmanr if measure == "spearman" else kendalltau

    def agreement(trial: Trial, criterion: str, step: str) -> float:
        values = [row["criteria"][step][criterion] for row in trial], [row["probe"] for row in trial]
        value = float(correlate(*values).statistic)
        return 0.0 if value != value else value

    return {
        name: {
            data: mean(agreement(trial, name, str(result["steps"][-1])) for trial in trials(result))
            for data, result in results.items()
        }
        for name in CRITERIA
    }


def best_criterion(results: Results) -> str:
    """The criterion of the highest rank correlation, the mean over the data sets."""
    values = correlations(results)
    return max(values, key=lambda name: mean(values[name].values()))


def selected(trial: Trial, criterion: str, steps: Sequence[int]) -> str:
    """Whom `kvicreg select` would take: rung by rung, the better half by the criterion."""
    left = list(trial)
    for number, step in enumerate(steps):
        values = {row["candidate"]: row["criteria"][str(step)] for row in left}
        scores = combination(values) if criterion == "combination" else {n: v[criterion] for n, v in values.items()}
        best = order(scores)
        counts = sizes(len(trial))
        keep = counts[number + 1] if number + 1 < min(len(counts), len(steps)) else 1
        left = [row for name in best[:keep] for row in left if row["candidate"] == name]
    return str(left[0]["candidate"])


def regret(result: Mapping[str, Any], criterion: str) -> float:
    """What choosing by a criterion costs against the best candidate, the mean over the seeds."""
    values = quality(result)
    chosen = [selected(trial, criterion, result["steps"]) for trial in trials(result)]
    return mean(max(values.values()) - values[candidate] for candidate in chosen)


def regrets(results: Results) -> dict[str, dict[str, float]]:
    """The regret of each criterion on each data set."""
    return {name: {data: regret(result, name) for data, result in results.items()} for name in CRITERIA}


def regret_of_rbf(result: Mapping[str, Any]) -> float:
    """What always taking RBF costs against the best candidate."""
    values = quality(result)
    return max(values.values()) - values["rbf"]


def left_out(results: Results) -> dict[str, dict[str, Any]]:
    """The honest regret: on each data set, by the criterion that is best on the others."""
    honest = {}
    for data, result in results.items():
        others = {name: other for name, other in results.items() if name != data}
        if others:
            criterion = best_criterion(others)
            honest[data] = {
                "criterion": criterion,
                "chosen": [selected(trial, criterion, result["steps"]) for trial in trials(result)],
                "best": best_candidate(result),
                "regret": regret(result, criterion),
                "regret_of_rbf": regret_of_rbf(result),
            }
    return honest


def evidence(results: Results) -> dict[str, Any]:
    """What advice needs: the criterion, what it is worth, and what did best on which data."""
    about = {
        data: {
            "facts": result["facts"],
            "images": result["settings"]["images"],
            "best": best_candidate(result),
            "best_gain_over_rbf": round(regret_of_rbf(result), 5),
            "uncertainty": round(uncertainty(result), 5),
        }
        for data, result in results.items()
    }
    rounded = {name: {d: round(v, 4) for d, v in by.items()} for name, by in correlations(results).items()}
    costs = {name: {d: round(v, 5) for d, v in by.items()} for name, by in regrets(results).items()}
    return {"criterion": best_criterion(results), "correlations": rounded, "regret": costs, "data": about}


def uncertainty(result: Mapping[str, Any]) -> float:
    """Mean difference of the seeds of a candidate; with one seed, half of its probe's 95 % interval over images."""
    rows = [row for row in result["rows"] if "error" not in row]
    probes = [[row["probe"] for row in same] for same in tables.groups(rows, "candidate").values()]
    several = [max(values) - min(values) for values in probes if len(values) > 1]
    return mean(several or [(row["probe_high"] - row["probe_low"]) / 2 for row in rows])


# --------------------------------------------------------------------------- tables and figure


def markdown(results: Results) -> str:
    """All tables of docs/selection.md."""
    runs = sum(len(trial) for result in results.values() for trial in trials(result))
    counts = {data: len(trials(result)) for data, result in results.items()}
    seeds = ", ".join(f"{data} with {count} seed{'s' if count > 1 else ''}" for data, count in counts.items())
    first = next(iter(results.values()))
    settings = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in first["settings"].items())
    return "\n\n".join(
        [
            f"{runs} runs: {len(quality(first))} candidates, {seeds}. Shared: {settings}.",
            "**Rank correlation with the probe** (Spearman / Kendall) over the candidates, at the end of training:",
            _correlation_table(results),
            "**Regret** in points: the best candidate's probe minus that of the one `kvicreg select` would take:",
            _regret_table(results),
            "**Nothing of a data set's own labels used**: the criterion is the one that is best on the other data "
            "sets, applied to this one:",
            _left_out_table(results),
            "**The candidates**, linear probe in percent on held-out training images, mean over seeds:",
            _candidate_table(results),
        ]
    )


def _correlation_table(results: Results) -> str:
    spearman, kendall = correlations(results), correlations(results, "kendall")
    lines = [
        [name, *(f"{values[d]:+.2f} / {kendall[name][d]:+.2f}" for d in results), f"{mean(values.values()):+.2f}"]
        for name, values in sorted(spearman.items(), key=lambda item: -mean(item[1].values()))
    ]
    return tables.markdown(["criterion", *results, "mean Spearman"], lines)


def _regret_table(results: Results) -> str:
    rows = dict(sorted(regrets(results).items(), key=lambda item: mean(item[1].values())))
    rows["always RBF"] = {data: regret_of_rbf(result) for data, result in results.items()}
    lines = (
        [name, *(f"{100 * values[d]:.2f}" for d in results), f"{100 * mean(values.values()):.2f}"]
        for name, values in rows.items()
    )
    return tables.markdown(["criterion", *results, "mean"], lines)


def _left_out_table(results: Results) -> str:
    honest = left_out(results)
    lines = [
        [
            data,
            row["criterion"],
            ", ".join(dict.fromkeys(row["chosen"])),
            row["best"],
            row["regret"],
            row["regret_of_rbf"],
        ]
        for data, row in honest.items()
    ]
    if honest:
        lines.append(["mean", "", "", "", *(mean(row[key] for row in honest.values()) for key in REGRETS)])
    titles = ["data", "criterion", "chosen", "best candidate", "regret", "regret of always RBF"]
    return tables.markdown(titles, ([*line[:4], *(f"{100 * value:.2f}" for value in line[4:])] for line in lines))


REGRETS = ("regret", "regret_of_rbf")


def _candidate_table(results: Results) -> str:
    values = {data: quality(result) for data, result in results.items()}
    names = dict.fromkeys(row["candidate"] for result in results.values() for row in result["rows"])
    lines = (
        [name, *(f"{100 * values[d][name]:.1f}" if name in values[d] else "failed" for d in results)] for name in names
    )
    return tables.markdown(["candidate", *results], lines)


def draw(results: Results, path: Path) -> None:
    """A panel for each data set, a dot for each run; what is chosen without labels is ringed."""
    criterion = best_criterion(results)
    worth = correlations(results)[criterion]
    width = 1 + 5.2 * len(results)
    title = f"Choosing without labels: agreement of {criterion} with the probe"
    detail = "Each dot is a candidate at the end of its short training. No label had a part in the horizontal axis."
    with panels(
        path, (width, 5.4), title, detail, len(results), (0.9 / width, 0.99, 0.76, 0.22, 0.22), sharey=False
    ) as every:
        for axes, (data, result) in zip(every, results.items(), strict=True):
            last, best = str(result["steps"][-1]), best_candidate(result)
            for trial in trials(result):
                at = {row["candidate"]: (row["criteria"][last][criterion], 100 * row["probe"]) for row in trial}
                axes.scatter(*zip(*at.values(), strict=True), color=GREY, s=26, zorder=2)
                axes.scatter(*at["rbf"], color=BLUE, s=60, zorder=3, label="rbf")
                axes.scatter(*at[best], color=ORANGE, s=60, zorder=3, label=f"best: {best}")
                chosen = selected(trial, criterion, result["steps"])
                axes.plot(*at[chosen], "o", markersize=14, fillstyle="none", color=RED, label=f"chosen: {chosen}")
            axes.set(title=f"{data}: rank correlation {worth[data]:+.2f}", xlabel=criterion)
            axes.grid(alpha=0.25)
            once = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 3, "columnspacing": 1}
            axes.legend(once.values(), once.keys(), fontsize=9, handletextpad=0.2, **below)
        every[0].set_ylabel("linear probe, %")
