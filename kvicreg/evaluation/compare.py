"""Several runs side by side: each measure with its interval, and whether a run differs from the best beyond chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kvicreg.evaluation.intervals import PairedDifference, holm, paired_bootstrap
from kvicreg.runs import RunFolder
from kvicreg.runs.results import MEASURES, controls_of, read_results, short_names


def load_scores(run: Path, on: str | None = None) -> dict[str, Any]:
    """Per-image scores of an evaluated run: "subject|measure" -> (m,), and the test data's "fingerprint"."""
    scores: dict[str, Any] | None = RunFolder(run).arrays("scores", on)
    if scores is None:
        raise FileNotFoundError(f"{run} has no scores of its test images: evaluate it again with kvicreg evaluate")
    return scores


def significance(
    runs: list[Path], key: str = "linear_probe", *, on: str | None = None, seed: int = 0
) -> tuple[Path, dict[Path, PairedDifference]]:
    """The best run by a measure, and every other run's paired difference from it, p-values by Holm's correction."""
    scores = {run: load_scores(run, on) for run in runs}
    if len({str(arrays["fingerprint"]) for arrays in scores.values()}) > 1:
        raise ValueError("the runs were evaluated on different test images: use --on DATA to evaluate all on the same")
    values = {run: torch.from_numpy(arrays[f"encoder|{key}"]) for run, arrays in scores.items()}
    best = max(runs, key=lambda run: float(values[run].mean()))
    pairs = {run: paired_bootstrap(values[run], values[best], seed=seed) for run in runs if run != best}
    corrected = holm([pair.p_value for pair in pairs.values()])
    return best, {run: pair._replace(p_value=p) for (run, pair), p in zip(pairs.items(), corrected, strict=True)}


def notes_against_best(runs: list[Path], *, on: str | None = None) -> list[str]:
    """A note per run: that it is the best, or by how much it differs; or why they can't be compared."""
    if len(runs) < 2:
        return [""] * len(runs)
    try:
        best, differences = significance(runs, on=on)
    except (ValueError, FileNotFoundError, KeyError):  # other test images, or no labels
        return ["not compared"] * len(runs)
    return ["best linear probe" if run == best else _difference(differences[run]) for run in runs]


def comparison_table(runs: list[Path], *, on: str | None = None) -> str:
    """A plain-text table: runs down, measures across in percent, then the difference from the best linear probe."""
    results = {run: read_results(RunFolder(run).results_path(on)) for run in runs}
    subjects: list[tuple[str, dict[str, Any]]] = []
    names = dict(zip(runs, short_names(runs), strict=True))
    for run in runs:
        subjects.append((names[run], results[run]["subjects"]["encoder"]))
    subjects += controls_of({names[run]: results[run]["subjects"] for run in runs})
    keys = [key for key in MEASURES if any(key in measures for _, measures in subjects)]
    if not keys:
        return "no labels, so no accuracies to compare"
    notes = notes_against_best(runs, on=on)
    header = ["", *(MEASURES[key].heading for key in keys)] + (["against the best"] if len(runs) > 1 else [])
    lines = [header]
    for position, (name, measures) in enumerate(subjects):
        line = [name, *(_cell(measures.get(key)) for key in keys)]
        if len(runs) > 1:
            line.append(notes[position] if position < len(runs) else "")
        lines.append(line)
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    legend = "Percent, with half of the 95 % interval over test images; p-values by paired bootstrap, Holm-corrected."
    return "\n".join([text[0], "-" * len(text[0]), *text[1:], legend])


def _cell(entry: dict[str, Any] | None) -> str:
    if entry is None:
        return "-"
    return f"{100 * entry['value']:.1f} ±{50 * (entry['high'] - entry['low']):.1f}"


def _difference(pair: PairedDifference) -> str:
    verdict = "worse" if pair.p_value < 0.05 else "no clear difference"
    return f"{100 * pair.difference:+.1f} points, p = {pair.p_value:.2g}: {verdict}"
