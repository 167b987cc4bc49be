"""Advice in words: which kernel the evidence favours, and how sure that is. It never claims more than was measured."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kvicreg.selection.evidence import read_evidence
from kvicreg.selection.facts import FACTS

__all__ = ["advise_on_data", "advise_on_ranking", "advise_on_run"]

LARGE = 3.0
"""Images many times fewer or more than in our runs make them a poor guide."""


def advise_on_data(facts: Mapping[str, float], images: int, evidence: Mapping[str, Any] | None = None) -> list[str]:
    """From the images alone: which of the measured data sets they are most like, and what won there."""
    known = (read_evidence() if evidence is None else evidence)["data"]
    said = [
        f"{images:,} images; noise {facts['noise']:.1%} of the range; effective rank {facts['pixel_rank']:.0f} as "
        f"pixels and {facts['initial_rank']:.0f} by the untrained encoder; two views of an image are "
        f"{facts['view_difference']:.2f} times as far apart as two images."
    ]
    if not known:
        return [*said, "No data set has been measured yet to compare them with."]
    apart = {name: _distance(facts, about["facts"]) for name, about in known.items()}
    nearest = min(apart, key=lambda name: apart[name])
    about = known[nearest]
    gain, spread = 100 * about["best_gain_over_rbf"], 100 * about["uncertainty"]
    sure = "clear" if gain > 2 * spread and apart[nearest] < 1 else "weak"
    said.append(
        f"Of the data sets that were measured they are most like {nearest}, where {about['best']} did best: {gain:.1f} "
        f"points above RBF, of which up to {spread:.1f} may be chance. That is {sure} evidence, from another data set."
    )
    if apart[nearest] >= 1 or not 1 / LARGE <= images / about["images"] <= LARGE:
        said.append("They are not much like it, or not as many: let a study on the images themselves decide.")
    return said


def advise_on_ranking(found: Mapping[str, Any], evidence: Mapping[str, Any] | None = None) -> list[str]:
    """From a study's ranking: who won, by how much in units of its uncertainty, and what the criterion is worth."""
    evidence = read_evidence() if evidence is None else evidence
    good = [row for row in found["ranking"] if row["error"] is None]
    failed = [row["candidate"] for row in found["ranking"] if row["error"] is not None]
    if not good:
        return ["Every candidate failed: look at the errors, the data and the learning rate before choosing a kernel."]
    criterion, first = found["criterion"], good[0]
    said = [f"{first['candidate']} ranks first by {criterion}."]
    rival = next((row for row in good[1:] if row["settings"].get("kernel") != first["settings"].get("kernel")), None)
    if rival is not None:
        said[0] = f"{first['candidate']} ranks first by {criterion}, ahead of {rival['candidate']}."
        said.append(_how_sure(criterion, first, rival))
    correlations = evidence["correlations"].get(criterion)
    if correlations:
        low, high = min(correlations.values()), max(correlations.values())
        said.append(
            f"Over our runs on {', '.join(correlations)} the rank correlation of this criterion with a linear probe "
            f"was {low:.2f} to {high:.2f}" + _regret(evidence["regret"].get(criterion)) + "."
        )
    else:
        said.append("How well this criterion predicts a probe has not been measured.")
    if failed:
        said.append(f"Could not be trained: {', '.join(failed)}.")
    return said


def advise_on_run(run: Path) -> list[str]:
    """From what a finished run has left: its study if it won one, and what its own record suggests to try."""
    said: list[str] = []
    selection = run / "selection.json"
    if selection.is_file():
        with suppress(ValueError, AttributeError, TypeError):  # a damaged file is told by the page
            said += json.loads(selection.read_text()).get("advice", [])
    metrics = run / "metrics.csv"
    rows = []
    if metrics.is_file():
        with metrics.open(newline="") as file:
            rows = list(csv.DictReader(file))
    if rows:
        with suppress(ValueError, AttributeError, TypeError, IndexError):
            said += _of_record(rows)
    if not selection.is_file():
        said.append("One run says nothing about other kernels: kvicreg select compares them on these images.")
    return said


def _how_sure(criterion: str, first: Mapping[str, Any], rival: Mapping[str, Any]) -> str:
    if first["steps"] != rival["steps"]:
        return f"{rival['candidate']} was dropped after {rival['steps']} steps, so they were never compared at the end."
    both = [
        name for name in first["criteria"] if name in rival["criteria"] and name not in ("consensus", "combination")
    ]
    for_it = sum(first["criteria"][name] > rival["criteria"][name] for name in both)
    share = f"{for_it} of {len(both)} criteria place it above"
    error = math.hypot(first["standard_errors"].get(criterion, 0.0), rival["standard_errors"].get(criterion, 0.0))
    if not error:
        sure = "fairly sure" if for_it >= 0.75 * len(both) else "close"
        return f"That is {sure}: {share}."
    apart = (first["score"] - rival["score"]) / error
    sure = "clear" if apart > 3 and for_it >= 0.5 * len(both) else "close" if apart < 1 else "likely"
    return f"The difference is {sure}: {apart:.1f} standard errors over images; {share}."


def _regret(regret: Mapping[str, float] | None) -> str:
    if not regret:
        return ""
    mean = sum(regret.values()) / len(regret)
    return f", and choosing by it cost {100 * mean:.1f} points against the best candidate"


def _of_record(rows: list[dict[str, str]]) -> list[str]:
    """The last epochs of metrics.csv in words: collapse, a spectrum that still grows, shares that were learnt."""
    said = []
    ranks = [float(row["effective_rank"]) for row in rows if row.get("effective_rank")]
    if rows[-1].get("warning"):
        said.append("Training ended with a warning, so its kernel is not to blame alone: see it above.")
    elif len(ranks) >= 4 and ranks[-1] > 1.05 * ranks[-2]:
        said.append("The effective rank was still rising at the end: more epochs before another kernel.")
    shares = {
        key.split("_", 2)[2]: float(value) for key, value in rows[-1].items() if key.startswith("share_") and value
    }
    if shares:
        most = max(shares, key=lambda name: shares[name])
        said.append(f"Of the mixture {most} has the largest share, {shares[most]:.0%}.")
    return said


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Root mean square of the log ratios of the facts: 1 is a factor of e apart."""
    floor = 1e-3
    logs = [math.log(max(one[name], floor) / max(other[name], floor)) for name in FACTS]
    return math.sqrt(sum(log**2 for log in logs) / len(logs))
