"""Figures in prose are those of the committed results: a comment after them says where each comes from.

    RBF gains 1.7 points. <!-- 1.7 = margin("defaults-vs-vicreg", "rbf", data="cifar10") -->

Each number of a comment stands in the text before it, up to the comment, list item or paragraph before that, as often
as the comment has it, and is what the expression gives, rounded to as many places.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import statistics
from collections import Counter
from functools import cache

import pytest
from source_tree import ROOT

RESULTS = ROOT / "docs" / "results"
KERNELS = ("linear", "polynomial", "rbf", "laplacian", "rq", "rbf+linear")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMENT = re.compile(r"<!-- ((?:-?[\d.]+ = [^;]*?(?:; )?)+) -->")


@cache
def table(file):
    return json.loads((RESULTS / f"{file}.json").read_text())


def rows(file, **where):
    """The rows of a result file that have these values, in the row itself or in its settings; test rows, if any."""
    where = {"on": table(file)["on"], **where}
    return [
        row
        for row in table(file)["rows"]
        if all(row.get(name, row["config"].get(name, "")) == value for name, value in where.items())
    ]


def values(file, key, **where):
    matching = rows(file, **where)
    assert matching, f"{file} has no row with {where}"
    return {row["seed"]: row[key] for row in matching}


def mean(file, key="probe", **where):
    """The mean over seeds, in percent."""
    return 100 * statistics.mean(values(file, key, **where).values())


def only(file, key, **where):
    """What the one row with these values has."""
    (row,) = rows(file, **where)
    return row[key]


def margin(file, name, key="probe", rival="vicreg, tuned", **where):
    """How far a row is above its rival, on average over the seeds of both, in points."""
    where = {"grid": "", **where}
    ours, theirs = values(file, key, name=name, **where), values(file, key, name=rival, **where)
    return 100 * statistics.mean(ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys())


def above_vicreg(file, name, score="probe", of="above_vicreg", **where):
    """What a method has above VICReg as a table of paired differences tells, in points."""
    told = [row for row in table(file)[of] if {**row, **where, "name": name, "score": score} == row]
    (only,) = told
    return only["points"]


def lost_margin(name, epochs, score="probe"):
    """By how many points a margin over VICReg is less than after the first epoch, over the seeds of both."""
    return -above_vicreg("compute", name, score, of="margin_changes", to=epochs)


def above_frozen(data, key="probe"):
    """What adapting pretrained weights by Kernel VICReg gains over leaving them as they are, in points."""
    frozen = mean("own-images", key, data=data, method="starting encoder")
    return mean("own-images", key, data=data, name="adapted, kernel-vicreg") - frozen


def photographs(name, score="linear_probe"):
    """What an encoder of the plain command on photographs reaches, in percent."""
    return table("bench-photographs")["encoders"][name][score][0]


def share_of_a_step(case):
    """What the loss takes of a step of training a large network, in percent."""
    (row,) = (row for row in table("bench-train-large")["rows"] if row["case"] == case)
    return 100 * row["loss_share"]


def cost_above_vicreg(name):
    """How many more core-seconds an image takes than by VICReg, in percent."""
    seconds = table("compute")["core_seconds_per_image"]
    return 100 * (seconds[name] / seconds["vicreg, published"] - 1)


def loss_time(name, batch, width, rival):
    """How many times as long as a rival a loss takes: VICReg as published, or another of ours; two views, exact."""
    place = {"batch": batch, "width": width, "views": 2, "approximation": "exact", "peer": "published"}
    ratios = {row["loss"]: row["ratio"] for row in table("bench-loss/bench-loss")["rows"] if {**row, **place} == row}
    return ratios[name] / (1 if rival == "published" else ratios[rival])


def time_in_points(name):
    """What the core-seconds a kernel takes more are worth between budgets, in points by VICReg's own curve."""
    more = math.log(1 + cost_above_vicreg(name) / 100)
    curve = [(math.log(epochs), mean("compute", name="vicreg, published", epochs=epochs)) for epochs in (1, 3, 10, 30)]
    return [more * (later[1] - first[1]) / (later[0] - first[0]) for first, later in itertools.pairwise(curve)]


LANGUAGE = {
    "time_in_points": time_in_points,
    "loss_time": loss_time,
    "share_of_a_step": share_of_a_step,
    "cost_above_vicreg": cost_above_vicreg,
    "photographs": photographs,
    "above_frozen": above_frozen,
    "above_vicreg": above_vicreg,
    "lost_margin": lost_margin,
    "rows": rows,
    "mean": mean,
    "only": only,
    "margin": margin,
    "KERNELS": KERNELS,
    "abs": abs,
    "round": round,
    "min": min,
    "max": max,
    "len": len,
    "sum": sum,
}


def numbers(text):
    """The numbers in a text, without the addresses of links."""
    return re.findall(r"(?<![\d.,])\d+(?:\.\d+)?(?![\d]|[.,]\d)", re.sub(r"\]\([^)]*\)", "", text))


def sources(comment):
    """The numbers that a comment has expressions for, without their signs."""
    return [item.split(" = ", 1)[0].lstrip("-") for item in comment.split("; ")]


CLAIMS = [
    pytest.param(page, match.start(), *item.split(" = ", 1), id=f"{page.name}: {item}")
    for page in PAGES
    for match in COMMENT.finditer(page.read_text(encoding="utf-8"))
    for item in match[1].split("; ")
]


@pytest.mark.parametrize(("page", "place", "number", "expression"), CLAIMS)
def test_a_number_in_prose_is_the_results(page, place, number, expression):
    value = eval(expression, {"__builtins__": {}, **LANGUAGE})
    places = len(number.partition(".")[2])
    assert f"{value:.{places}f}" == number


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_text_before_a_comment_has_its_numbers_as_often_as_it_lists_them(page):
    text = page.read_text(encoding="utf-8")
    for match in COMMENT.finditer(text):
        before = numbers(re.split(r"-->|\n *- |\n\n", text[: match.start()])[-1])
        assert Counter(sources(match[1])) <= Counter(before), match[1]


@pytest.mark.parametrize(
    ("page", "section"), [("README.md", "## How well it works"), ("docs/findings.md", "# What it is good for")]
)
def test_every_figure_has_a_source(page, section):
    text = (ROOT / page).read_text(encoding="utf-8").split(section)[1].split("\n## Documentation")[0]
    for part in re.split(r"\n *- |\n\n", text):
        known = {number for match in COMMENT.finditer(part) for number in sources(match[1])}
        results = [number for number in numbers(COMMENT.sub("", part)) if "." in number]
        assert {*results} <= known, f"no source for {sorted({*results} - known)}"
