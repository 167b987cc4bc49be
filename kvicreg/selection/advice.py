"""Advice in words: which kernel the evidence favours, and how sure that is. It never claims more than was measured.

The evidence is what labelled data sets have taught about choosing without labels: evidence.json, which ships with the
package and is written by the experiment `selection`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

from kvicreg.runs import RunFolder
from kvicreg.runs.metrics import Metrics
from kvicreg.selection.facts import FACTS

__all__ = ["advise_on_data", "advise_on_ranking", "advise_on_run", "read_evidence"]

LARGE = 3.0
"""Images this many times fewer or more than in our runs make them a poor guide."""


def read_evidence() -> dict[str, Any]:
    """The default criterion, each criterion's rank correlation with the probe, and what won on which data."""
    return dict(json.loads(resources.files("kvicreg.selection").joinpath("evidence.json").read_text(encoding="utf-8")))


def advise_on_data(facts: Mapping[str, float], images: int, evidence: Mapping[str, Any] | None = None) -> list[str]:
    """From the images alone: which of the measured data sets they are most like, and what won there."""
    measured = (read_evidence() if evidence is None else evidence)["data"]
    sentences = [
        f"{images:,} images; noise {facts['noise']:.1%} of the range; effective rank {facts['pixel_rank']:.0f} as "
        f"pixels and {facts['initial_rank']:.0f} by the untrained encoder; two views of an image are "
        f"{facts['view_difference']:.2f} times as far apart as two images."
    ]
    if not measured:
        return [*sentences, "No data set has been measured yet to compare them with."]
    distances = {name: _distance(facts, about["facts"]) for name, about in measured.items()}
    nearest = min(distances, key=lambda name: distances[name])
    about = measured[nearest]
    gain, uncertainty = 100 * about["best_gain_over_rbf"], 100 * about["uncertainty"]
    strength = "clear" if gain > 2 * uncertainty and distances[nearest] < 1 else "weak"
    sentences.append(
        f"Of the data sets that were measured they are most like {nearest}, where {about['best']} did best: {gain:.1f} "
        f"points above RBF, of which up to {uncertainty:.1f} may be chance. That is {strength} evidence, from another "
        "data set."
    )
    if distances[nearest] >= 1 or not 1 / LARGE <= images / about["images"] <= LARGE:
        sentences.append("They are not much like it, or not as many: let a study on the images themselves decide.")
    return sentences


def advise_on_ranking(ranking: Mapping[str, Any], evidence: Mapping[str, Any] | None = None) -> list[str]:
    """From a study's ranking: who won, by how much in units of its uncertainty, and what the criterion is worth."""
    evidence = read_evidence() if evidence is None else evidence
    trained = [row for row in ranking["ranking"] if row["error"] is None]
    failed = [row["candidate"] for row in ranking["ranking"] if row["error"] is not None]
    if not trained:
        return ["Every candidate failed: look at the errors, the data and the learning rate before choosing a kernel."]
    criterion, first = ranking["criterion"], trained[0]
    kernel = first["settings"].get("kernel")
    rival = next((row for row in trained[1:] if row["settings"].get("kernel") != kernel), None)
    if rival is None:
        sentences = [f"{first['candidate']} ranks first by {criterion}."]
    else:
        sentences = [f"{first['candidate']} ranks first by {criterion}, ahead of {rival['candidate']}."]
        sentences.append(_how_sure(criterion, first, rival))
    sentences.append(_worth(criterion, evidence))
    if failed:
        sentences.append(f"Could not be trained: {', '.join(failed)}.")
    return sentences


def advise_on_run(path: Path) -> list[str]:
    """From what a finished run has left: its study if it won one, and what its record suggests to try.

    What is damaged is passed over: the page that shows it tells.
    """
    run = RunFolder(path)
    sentences: list[str] = []
    try:
        ranking = run.selection()
    except ValueError:
        ranking = {}
    if ranking:
        sentences += ranking.get("advice", [])
    with suppress(ValueError):
        sentences += _advise_on_record(run.metrics())
    if ranking is None:
        sentences.append("One run says nothing about other kernels: kvicreg select compares them on these images.")
    return sentences


def _worth(criterion: str, evidence: Mapping[str, Any]) -> str:
    """How well the criterion has predicted a probe."""
    correlations = evidence["correlations"].get(criterion)
    if not correlations:
        return "How well this criterion predicts a probe has not been measured."
    low, high = min(correlations.values()), max(correlations.values())
    sentence = (
        f"Over our runs on {', '.join(correlations)} the rank correlation of this criterion with a linear probe "
        f"was {low:.2f} to {high:.2f}"
    )
    regret = evidence["regret"].get(criterion)
    if not regret:
        return f"{sentence}."
    mean = sum(regret.values()) / len(regret)
    return f"{sentence}, and choosing by it cost {100 * mean:.1f} points against the best candidate."


def _how_sure(criterion: str, first: Mapping[str, Any], rival: Mapping[str, Any]) -> str:
    """How far apart the first two are, in standard errors where there are any, and what the other criteria say."""
    if first["steps"] != rival["steps"]:
        return f"{rival['candidate']} was dropped after {rival['steps']} steps, so they were never compared at the end."
    compared = [
        name for name in first["criteria"] if name in rival["criteria"] and name not in ("consensus", "combination")
    ]
    agreeing = sum(first["criteria"][name] > rival["criteria"][name] for name in compared)
    share = f"{agreeing} of {len(compared)} criteria place it above"
    error = math.hypot(first["standard_errors"].get(criterion, 0.0), rival["standard_errors"].get(criterion, 0.0))
    if not error:
        verdict = "fairly sure" if agreeing >= 0.75 * len(compared) else "close"
        return f"That is {verdict}: {share}."
    distance = (first["score"] - rival["score"]) / error
    verdict = "clear" if distance > 3 and agreeing >= 0.5 * len(compared) else "close" if distance < 1 else "likely"
    return f"The difference is {verdict}: {distance:.1f} standard errors over images; {share}."


def _advise_on_record(metrics: Metrics) -> list[str]:
    """The last epochs of training in words: collapse, a spectrum that still grows, shares that were learnt."""
    sentences = []
    ranks = metrics.measured("effective_rank")
    last_epoch = metrics.measured("epoch")[-1:]
    if last_epoch and metrics.warnings[-1:] and metrics.warnings[-1].startswith(f"epoch {last_epoch[0]:g}:"):
        sentences.append("Training ended with a warning, so its kernel is not to blame alone: see it above.")
    elif len(ranks) >= 4 and ranks[-1] > 1.05 * ranks[-2]:
        sentences.append("The effective rank was still rising at the end: more epochs before another kernel.")
    columns = {name: values[-1] for name, values in metrics.columns.items() if name.startswith("share_")}
    shares = {name.split("_", 2)[2]: share for name, share in columns.items() if share is not None}
    if shares:
        largest = max(shares, key=lambda name: shares[name])
        sentences.append(f"Of the mixture {largest} has the largest share, {shares[largest]:.0%}.")
    return sentences


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Root mean square of the log ratios of the facts: 1 is a factor of e apart."""
    floor = 1e-3
    logs = [math.log(max(one[name], floor) / max(other[name], floor)) for name in FACTS]
    return math.sqrt(sum(log**2 for log in logs) / len(logs))
