"""The tables of the page, as plain values ready to be printed."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path
from typing import Any

from kvicreg.report.read import RunRecord
from kvicreg.runs import RunFolder
from kvicreg.runs.results import MEASURES, controls_of
from kvicreg.storage import quoted, without_home

WIDE = 80  # letters in the names of classes, above which they stand upright over their columns
DIAGNOSTICS = {
    "effective_rank": ("effective rank", "directions that carry the variance, of {effective_rank_bound} possible"),
    "rankme": ("RankMe", "the same of the uncentred features' singular values; higher tends to probe better"),
    "alpha": ("alpha", "decay of the spectrum as a power law; near 1 is healthy, above 2 is nearly collapsed"),
    "alignment": ("alignment", "squared distance of two views of an image on the unit sphere; 0 is fully invariant"),
    "uniformity": ("uniformity", "how evenly images cover the sphere; 0 is collapsed, about -4 is even"),
    "top_share": ("first direction", "share of the variance in a single direction"),
    "class_variance_share": ("between classes", "share of the variance that separates the classes"),
    "dead_dimensions": ("dead features", "features that never vary, of {dimension}"),
}


def comparison(runs: list[RunRecord], notes: dict[str, str]) -> dict[str, Any] | None:
    """Runs and their controls down, measures across; None when no run has accuracies."""
    evaluated = {run.name: run.results for run in runs if run.results and run.results["subjects"]["encoder"]}
    if not evaluated:
        return None
    subjects = {name: results["subjects"] for name, results in evaluated.items()}
    rows = [(name, False, measured["encoder"]) for name, measured in subjects.items()]
    rows += [(name, not name.startswith("projector"), measures) for name, measures in controls_of(subjects)]
    keys = [key for key in MEASURES if any(key in measures for _, _, measures in rows)]
    best = {key: max(measures[key]["value"] for _, _, measures in rows if key in measures) for key in keys}
    footnotes = []
    data = {results["data"]["name"]: f"{results['data']['test_images']:,}" for results in evaluated.values()}
    if len(data) > 1:
        footnotes.append("The runs were evaluated on different data: their values are not comparable.")
    if any(notes.values()):
        footnotes.append(
            "Differences from the best linear probe by paired bootstrap over test images, p-values Holm-corrected. "
            "They do not contain the randomness of training: for that, compare several seeds."
        )
    return {
        "data": ", ".join(f"{images} test images of {name}" for name, images in sorted(data.items())),
        "headings": [MEASURES[key].heading for key in keys],
        "footnotes": footnotes,
        "rows": [
            {
                "name": name,
                "control": control,
                "note": notes.get(name, ""),
                "cells": [_cell(measures.get(key), best[key]) for key in keys],
            }
            for name, control, measures in rows
        ],
    }


def _cell(entry: dict[str, Any] | None, best: float) -> dict[str, Any] | None:
    if entry is None:
        return None
    interval = f"{100 * entry['low']:.1f} to {100 * entry['high']:.1f}"
    return {"value": f"{100 * entry['value']:.1f}", "interval": interval, "best": entry["value"] == best}


def transfers(runs: list[RunRecord]) -> list[dict[str, Any]]:
    """A row per run and other data set it was evaluated on."""
    rows = []
    for run in runs:
        for results in run.transfers:
            subjects = results["subjects"]
            wanted = [("encoder", "linear_probe"), ("encoder", "knn"), ("raw pixels", "linear_probe")]
            wanted += [("random encoder", "linear_probe")]
            entries = [subjects.get(subject, {}).get(key) for subject, key in wanted]
            cells = ["-" if entry is None else f"{100 * entry['value']:.1f}" for entry in entries]
            row = {"run": run.name, "cells": [results["data"]["name"], *cells]}
            rows.append(row | {"adaptation": results["data"]["adaptation"]})
    return rows


def confusions(runs: list[RunRecord], limit: int = 20) -> list[dict[str, Any]]:
    """Each run's confusion matrix where it is small enough to read, and its most frequent mistakes."""
    evaluated = [(run.name, run.results) for run in runs if run.results and run.results.get("confusion")]
    return [{"name": name, **_confusion(results, limit)} for name, results in evaluated]


def _confusion(results: dict[str, Any], limit: int) -> dict[str, Any]:
    counts = results["confusion"]
    names = results["data"]["classes"] or []
    classes = [names[k] if k < len(names) else str(k) for k in range(len(counts))]
    pairs = [
        {"true": classes[i], "predicted": classes[j], "count": count}
        for i, row in enumerate(counts)
        for j, count in enumerate(row)
        if i != j and count
    ]
    pairs.sort(key=lambda pair: -pair["count"])
    matrix = [
        (classes[i], [{"count": count, "share": round(count / max(1, sum(row)), 3)} for count in row])
        for i, row in enumerate(counts)
    ]
    small = len(classes) <= limit
    return {
        "classes": classes,
        "upright": sum(map(len, classes)) > WIDE,
        "matrix": matrix if small else None,
        "pairs": pairs[: 8 if small else 25],
    }


def groups(runs: list[RunRecord]) -> list[dict[str, Any]]:
    """Accuracy by group, for the runs that were evaluated with groups."""
    tables = []
    for run in runs:
        report = (run.results or {}).get("groups")
        if report:
            gap = f"{100 * report['gap']:.1f}"
            rows = [_group(group) for group in report["groups"]]
            tables.append(
                {"name": run.name, "gap": gap, "best": report["best"], "worst": report["worst"], "rows": rows}
            )
    return tables


def _group(group: dict[str, Any]) -> dict[str, str]:
    low, value, high = (f"{100 * group['accuracy'][key]:.1f}" for key in ("low", "value", "high"))
    return {
        "name": group["name"],
        "images": f"{group['images']:,}",
        "accuracy": value,
        "interval": f"{low} to {high}",
        "rank": f"{group['effective_rank']:.1f}",
    }


def diagnostics(runs: list[RunRecord]) -> dict[str, Any] | None:
    """Measures of the features down, runs across, each with a sentence."""
    evaluated = [run for run in runs if run.results]
    if not evaluated:
        return None
    values = [run.results["diagnostics"] for run in evaluated if run.results]
    rows = []
    for key, (name, meaning) in DIAGNOSTICS.items():
        cells = [_diagnostic(key, value.get(key)) for value in values]
        if any(cell != "-" for cell in cells):
            rows.append({"name": name, "cells": cells, "meaning": meaning.format(**values[0])})
    return {"names": [run.name for run in evaluated], "rows": rows}


def _diagnostic(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    if key in ("top_share", "class_variance_share"):
        return f"{100 * value:.1f} %"
    return str(value) if isinstance(value, int) else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def again(runs: list[RunRecord]) -> list[dict[str, Any]]:
    """How to make each run, its evaluation and the page anew; home folders are written as ~."""
    rows = []
    for run in runs:
        folder, config = f"{without_home(str(run.folder.path))}-again", without_home(str(run.folder.config))
        commands = [["train", "--config", config, "--out", folder]]
        if run.results and run.results.get("command"):
            commands.append(["evaluate", folder, *_options(str(run.results["command"]), run.folder)])
        commands.append(["report", folder])
        versions = (run.results or {}).get("versions", {})
        rows.append(
            {
                "name": run.name,
                "commands": "\n".join(" ".join(["kvicreg", *map(quoted, words)]) for words in commands),
                "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
                "settings": [(name, str(value)) for name, value in run.settings.items() if value is not None],
            }
        )
    return rows


def _options(command: str, folder: RunFolder) -> list[str]:
    """The options of a recorded `kvicreg evaluate`, without its runs and its --out; `kvicreg report` has none."""
    _, name, *words = [*shlex.split(command), "", ""]
    if name != "evaluate":
        return []
    options = itertools.dropwhile(lambda word: not word.startswith("-"), filter(None, words))
    return [word for word in options if word != "--out" and Path(word).name != folder.path.name]
