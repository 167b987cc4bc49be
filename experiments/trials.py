"""What the trials of the selection experiment say: correlations, regrets, and the evidence that ships with the package.

A trial is one data set and one seed: all candidates, measured after 1, 2, 4 and 8 epochs. The quality of a candidate on
a data set is its probe's accuracy on held-out training images, the mean over the seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from scipy.stats import kendalltau, spearmanr

from experiments.common import tables
from kvicreg.selection.criteria import CRITERIA, combination
from kvicreg.selection.halving import order, sizes

Result = Mapping[str, Any]
Results = dict[str, dict[str, Any]]
Trial = list[dict[str, Any]]
MEASURES = {"spearman": spearmanr, "kendall": kendalltau}


def read(folder: Path) -> Results:
    """The result files of all data sets, by name."""
    results = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    if not results:
        raise FileNotFoundError(f"{folder} holds no results: python -m experiments selection writes them")
    return results


def _valid(result: Result) -> Trial:
    return [row for row in result["rows"] if "error" not in row]


def trials(result: Result) -> list[Trial]:
    """The candidates that could be trained, seed by seed."""
    return [*tables.groups(sorted(_valid(result), key=lambda row: row["seed"]), "seed").values()]


def quality(result: Result) -> dict[str, float]:
    """The mean probe of each candidate over the seeds."""
    return {name: tables.average(same) for name, same in tables.groups(_valid(result), "candidate").items()}


def best_candidate(result: Result) -> str:
    """The candidate of the highest quality."""
    values = quality(result)
    return max(values, key=lambda name: values[name])


def _table(results: Results, of: Callable[[Result, str], float]) -> dict[str, dict[str, float]]:
    return {name: {data: of(result, name) for data, result in results.items()} for name in CRITERIA}


def correlations(results: Results, measure: str = "spearman") -> dict[str, dict[str, float]]:
    """Rank correlation of each criterion at the end with the probe: criterion -> data -> mean over seeds."""

    def agreement(result: Result, criterion: str) -> float:
        step = str(result["steps"][-1])
        pairs = [[(row["criteria"][step][criterion], row["probe"]) for row in trial] for trial in trials(result)]
        values = [float(MEASURES[measure](*zip(*pair, strict=True)).statistic) for pair in pairs]
        return mean(0.0 if value != value else value for value in values)  # not a number: all are alike

    return _table(results, agreement)


def best_criterion(results: Results) -> str:
    """The criterion of the highest rank correlation, the mean over the data sets."""
    values = correlations(results)
    return max(values, key=lambda name: mean(values[name].values()))


def selected(trial: Trial, criterion: str, steps: Sequence[int]) -> str:
    """Whom `kvicreg select` would take: rung by rung, the better half by the criterion."""
    left, counts = {row["candidate"]: row for row in trial}, sizes(len(trial))[: len(steps)]
    for number, step in enumerate(steps):
        values = {name: row["criteria"][str(step)] for name, row in left.items()}
        scores = combination(values) if criterion == "combination" else {n: v[criterion] for n, v in values.items()}
        count = counts[number + 1] if number + 1 < len(counts) else 1
        left = {name: left[name] for name in order(scores)[:count]}
    return str(next(iter(left)))


def regret(result: Result, criterion: str) -> float:
    """What choosing by a criterion costs against the best candidate, the mean over the seeds."""
    values = quality(result)
    chosen = [selected(trial, criterion, result["steps"]) for trial in trials(result)]
    return mean(max(values.values()) - values[candidate] for candidate in chosen)


def regrets(results: Results) -> dict[str, dict[str, float]]:
    """The regret of each criterion on each data set."""
    return _table(results, regret)


def regret_of_rbf(result: Result) -> float:
    """What always taking RBF costs against the best candidate."""
    values = quality(result)
    return max(values.values()) - values["rbf"]


def left_out(results: Results) -> dict[str, dict[str, Any]]:
    """The honest regret: on each data set, by the criterion that is best on the others."""
    honest = {}
    for data, result in results.items() if len(results) > 1 else ():
        criterion = best_criterion({name: other for name, other in results.items() if name != data})
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
    worth = {name: {d: round(v, 4) for d, v in by.items()} for name, by in correlations(results).items()}
    costs = {name: {d: round(v, 5) for d, v in by.items()} for name, by in regrets(results).items()}
    return {"criterion": best_criterion(results), "correlations": worth, "regret": costs, "data": about}


def uncertainty(result: Result) -> float:
    """Mean difference of the seeds of a candidate; with one seed, half of its probe's 95 % interval over images."""
    rows = _valid(result)
    probes = [[row["probe"] for row in same] for same in tables.groups(rows, "candidate").values()]
    several = [max(values) - min(values) for values in probes if len(values) > 1]
    return mean(several or [(row["probe_high"] - row["probe_low"]) / 2 for row in rows])
