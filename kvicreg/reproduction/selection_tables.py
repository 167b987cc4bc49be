"""From the runs of `kvicreg reproduce selection` to tables and to the evidence that ships with the package.

A study is one data set and one seed: all candidates, measured after 1, 2, 4 and 8 epochs. The quality of a candidate
on a data set is its probe's accuracy on held-out training images, the mean over the seeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from kvicreg.selection.criteria import CRITERIA, combination
from kvicreg.selection.halving import order, sizes

__all__ = ["evidence", "markdown", "read", "regrets"]

Results = dict[str, dict[str, Any]]


def read(folder: Path) -> Results:
    """The result files of all data sets, by name."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    if not found:
        raise FileNotFoundError(f"{folder} holds no results: kvicreg reproduce selection writes them")
    return found


def studies(result: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    """The candidates that could be trained, seed by seed."""
    seeds = sorted({row["seed"] for row in result["rows"]})
    return [[row for row in result["rows"] if row["seed"] == seed and "error" not in row] for seed in seeds]


def quality(result: Mapping[str, Any]) -> dict[str, float]:
    """The mean probe of each candidate over the seeds."""
    found: dict[str, list[float]] = {}
    for row in result["rows"]:
        if "error" not in row:
            found.setdefault(row["candidate"], []).append(row["probe"])
    return {name: mean(values) for name, values in found.items()}


def correlations(results: Results, measure: str = "spearman") -> dict[str, dict[str, float]]:
    """Rank correlation of each criterion at the end with the probe: criterion -> data -> mean over seeds."""
    from scipy.stats import kendalltau, spearmanr

    correlate = spearmanr if measure == "spearman" else kendalltau
    found: dict[str, dict[str, float]] = {name: {} for name in CRITERIA}
    for data, result in results.items():
        last = str(result["steps"][-1])
        for name in CRITERIA:
            values = [
                float(
                    correlate([row["criteria"][last][name] for row in study], [row["probe"] for row in study]).statistic
                )
                for study in studies(result)
            ]
            found[name][data] = mean(0.0 if value != value else value for value in values)
    return found


def best_criterion(results: Results) -> str:
    """The criterion of the highest rank correlation, the mean over the data sets."""
    found = correlations(results)
    return max(found, key=lambda name: mean(found[name].values()))


def selected(study: Sequence[dict[str, Any]], criterion: str, steps: Sequence[int]) -> str:
    """Whom `kvicreg select` would take: rung by rung, the better half by the criterion."""
    left = list(study)
    for number, step in enumerate(steps):
        values = {row["candidate"]: row["criteria"][str(step)] for row in left}
        scores = combination(values) if criterion == "combination" else {n: v[criterion] for n, v in values.items()}
        best = order(scores)
        counts = sizes(len(study))
        keep = counts[number + 1] if number + 1 < min(len(counts), len(steps)) else 1
        left = [row for name in best[:keep] for row in left if row["candidate"] == name]
    return str(left[0]["candidate"])


def regrets(results: Results) -> dict[str, dict[str, float]]:
    """What choosing by each criterion costs against the best candidate: criterion -> data -> mean over seeds."""
    found: dict[str, dict[str, float]] = {name: {} for name in CRITERIA}
    for data, result in results.items():
        known = quality(result)
        best = max(known.values())
        for name in CRITERIA:
            chosen = [selected(study, name, result["steps"]) for study in studies(result)]
            found[name][data] = mean(best - known[candidate] for candidate in chosen)
    return found


def left_out(results: Results) -> dict[str, dict[str, Any]]:
    """The honest regret: on each data set, by the criterion that is best on the others."""
    found = {}
    for data, result in results.items():
        others = {name: other for name, other in results.items() if name != data}
        if not others:
            continue
        criterion, known = best_criterion(others), quality(result)
        chosen = [selected(study, criterion, result["steps"]) for study in studies(result)]
        best = max(known, key=lambda name: known[name])
        found[data] = {
            "criterion": criterion,
            "chosen": chosen,
            "best": best,
            "regret": mean(known[best] - known[candidate] for candidate in chosen),
            "regret_of_rbf": known[best] - known["rbf"],
        }
    return found


def evidence(results: Results) -> dict[str, Any]:
    """What advice needs: the criterion, what it is worth, and what did best on which data."""
    about = {}
    for data, result in results.items():
        known = quality(result)
        best = max(known, key=lambda name: known[name])
        about[data] = {
            "facts": result["facts"],
            "images": result["settings"]["images"],
            "best": best,
            "best_gain_over_rbf": round(known[best] - known["rbf"], 5),
            "uncertainty": round(_spread(result), 5),
        }
    rounded = {name: {d: round(v, 4) for d, v in by.items()} for name, by in correlations(results).items()}
    costs = {name: {d: round(v, 5) for d, v in by.items()} for name, by in regrets(results).items()}
    return {"criterion": best_criterion(results), "correlations": rounded, "regret": costs, "data": about}


def _spread(result: Mapping[str, Any]) -> float:
    """Mean difference of the seeds of a candidate; with one seed, half of its probe's 95 % interval over images."""
    of: dict[str, list[dict[str, Any]]] = {}
    for row in result["rows"]:
        if "error" not in row:
            of.setdefault(row["candidate"], []).append(row)
    several = [max(r["probe"] for r in rows) - min(r["probe"] for r in rows) for rows in of.values() if len(rows) > 1]
    if several:
        return mean(several)
    return mean((row["probe_high"] - row["probe_low"]) / 2 for rows in of.values() for row in rows)


def markdown(results: Results) -> str:
    """All tables of docs/selection.md."""
    runs = sum(len(study) for result in results.values() for study in studies(result))
    seeds = {data: len(studies(result)) for data, result in results.items()}
    first = next(iter(results.values()))
    settings = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in first["settings"].items())
    return "\n\n".join(
        [
            f"{runs} runs: {len(quality(first))} candidates, {_seeds(seeds)}. Shared: {settings}.",
            _correlation_table(results),
            _regret_table(results),
            _left_out_table(results),
            _candidate_table(results),
        ]
    )


def _seeds(seeds: Mapping[str, int]) -> str:
    return ", ".join(f"{data} with {count} seed{'s' if count > 1 else ''}" for data, count in seeds.items())


def _correlation_table(results: Results) -> str:
    spearman, kendall = correlations(results), correlations(results, "kendall")
    names = sorted(CRITERIA, key=lambda name: -mean(spearman[name].values()))
    rows = [
        [
            name,
            *(f"{spearman[name][d]:+.2f} / {kendall[name][d]:+.2f}" for d in results),
            f"{_mean(spearman[name]):+.2f}",
        ]
        for name in names
    ]
    title = "**Rank correlation with the probe** (Spearman / Kendall) over the candidates, at the end of training:"
    return f"{title}\n\n{_table(['criterion', *results, 'mean Spearman'], rows)}"


def _regret_table(results: Results) -> str:
    found = regrets(results)
    names = sorted(CRITERIA, key=lambda name: _mean(found[name]))
    rows = [
        [name, *(f"{100 * found[name][d]:.2f}" for d in results), f"{100 * _mean(found[name]):.2f}"] for name in names
    ]
    always = {d: max(quality(r).values()) - quality(r)["rbf"] for d, r in results.items()}
    rows.append(["always RBF", *(f"{100 * always[d]:.2f}" for d in results), f"{100 * _mean(always):.2f}"])
    title = "**Regret** in points: the best candidate's probe minus that of the one `kvicreg select` would take:"
    return f"{title}\n\n{_table(['criterion', *results, 'mean'], rows)}"


def _left_out_table(results: Results) -> str:
    found = left_out(results)
    rows = [
        [
            data,
            row["criterion"],
            ", ".join(dict.fromkeys(row["chosen"])),
            row["best"],
            f"{100 * row['regret']:.2f}",
            f"{100 * row['regret_of_rbf']:.2f}",
        ]
        for data, row in found.items()
    ]
    if found:
        means = (100 * mean(row[key] for row in found.values()) for key in ("regret", "regret_of_rbf"))
        rows.append(["mean", "", "", "", *(f"{value:.2f}" for value in means)])
    title = (
        "**Nothing of a data set's own labels used**: the criterion is the one that is best on the other data sets, "
        "applied to this one:"
    )
    heading = ["data", "criterion", "chosen", "best candidate", "regret", "regret of always RBF"]
    return f"{title}\n\n{_table(heading, rows)}"


def _candidate_table(results: Results) -> str:
    known = {data: quality(result) for data, result in results.items()}
    names = list(dict.fromkeys(row["candidate"] for result in results.values() for row in result["rows"]))
    rows = [
        [name, *(f"{100 * known[d][name]:.1f}" if name in known[d] else "failed" for d in results)] for name in names
    ]
    title = "**The candidates**, linear probe in percent on held-out training images, mean over seeds:"
    return f"{title}\n\n{_table(['candidate', *results], rows)}"


def _mean(values: Mapping[str, float]) -> float:
    return mean(values.values())


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
