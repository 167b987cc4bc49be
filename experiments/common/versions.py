"""Which version of the code a number rests on, told by what the code does and not by how it is written.

The fingerprint of a row is a step of its training in miniature, in float64, with its own method, kernel, loss settings
and views on a small encoder and made-up images: the loss, and the norm of its gradient; and two numbers of the probes
on made-up features. Refactoring leaves them, a change that matters moves them, and the row is stale. Rows from before
fingerprints have none: their version is unknown.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from experiments.common.cells import UNTRAINED, Row, identity
from kvicreg.data import ArrayData
from kvicreg.evaluation.probes import fit_linear_probe, knn
from kvicreg.options import Values
from kvicreg.runs import Settings
from kvicreg.training.build import build_method, build_views, resolve

TOLERANCE = 1e-3
"""Relative; what machines and versions of torch differ by is far below, and what moves a table is above."""
SMALL = Settings.of(
    width=0.25, pool=1, projector_layers=2, projector_hidden=32, projector_outputs=32, image_size=16, channels=3,
    batch_size=32,
)  # fmt: skip


def fingerprint(row: Row) -> str:
    """Loss and norm of the gradient of a step (of a control nothing), and two numbers of the probes."""
    step = () if row["method"] in UNTRAINED else _step(_small(row["config"]))
    return as_text(*step, *_probes())


def _small(config: dict[str, Any]) -> Settings:
    """The method and the views of a row, with a small encoder, and without groups."""
    given = {name: value for name, value in config.items() if not name.startswith("group")}
    whole = Settings.read(Values({name: value for name, value in identity(given).items() if value is not None}))
    data = replace(SMALL.data, source=whole.data.short_name)
    return replace(SMALL, data=data, views=whole.views, method=whole.method)


@cache
def _step(settings: Settings) -> tuple[float, float]:
    pixels = torch.randint(256, (64, 3, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    labels = torch.arange(64) % 4
    data = ArrayData(pixels, labels, name=settings.data.short_name)
    views = build_views(settings, data)
    with torch.random.fork_rng(devices=[]):
        method = build_method(resolve(settings, data, views)).double()
        count = max(32, method.least_batch)
        pair = [views(pixels[:count], torch.arange(count), seed=0, epoch=0, view=view).double() for view in (0, 1)]
        loss = method(pair, 0, labels[:count]).loss
        loss.backward()
    squares = [p.grad.square().sum() for p in method.parameters() if p.grad is not None]
    return loss.item(), torch.stack(squares).sum().sqrt().item()


@cache
def _probes() -> tuple[float, float]:
    """The mean size of a linear probe's scores, and the accuracy of nearest neighbours."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(300) % 3
    features = torch.randn(300, 8, generator=generator) + torch.eye(3, 8)[labels]
    x, t, x_labels, t_labels = features[:200], features[200:], labels[:200], labels[200:]
    scores = fit_linear_probe(x, x_labels, seed=0).scores(t)
    return scores.abs().mean().item(), knn(x, x_labels, t, t_labels, k=20).accuracy


def as_text(*numbers: float) -> str:
    """Numbers as a fingerprint has them."""
    return " ".join(f"{number:.6g}" for number in numbers)


def agrees(old: str, new: str) -> bool:
    """Whether two fingerprints are of the same code."""
    one, other = ([float(number) for number in text.split()] for text in (old, new))
    near = (math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(one, other, strict=False))
    return len(one) == len(other) and all(near)


def statuses(path: Path) -> Counter[str]:
    """How many rows of a result file are "current", "stale", or of an "unknown version"."""
    table = json.loads(path.read_text())
    if path.stem in WHOLE:
        name = path.stem.removeprefix("bench-")
        now = getattr(import_module(f"experiments.{name}"), f"{name}_fingerprint")()
        marks = [part.get("fingerprint") for part in (table["rows"] if path.stem == "tables" else [table])]
        return Counter(NAMES[None if mark is None else agrees(mark, now)] for mark in marks)
    count: Counter[str] = Counter()
    for row in table["rows"]:
        config = {**table.get("shared", {}), **table.get("settings", {}), **row.get("settings", {})}
        config |= {"data": table["data"]} if "data" in table else {}
        whole = {"method": row.get("method", ""), "config": {**config, **row.get("config", {})}}
        same = agrees(row["fingerprint"], fingerprint(whole)) if "fingerprint" in row else None
        count[NAMES[same]] += "error" not in row
    return count


WHOLE = ("theory", "tables", "pull", "bench-photographs")
"""Result files whose module has one fingerprint for all of their numbers."""
NAMES = {True: "current", False: "stale", None: "unknown version"}


def result_files(results: Path) -> list[Path]:
    """The result files whose numbers come from training, or from the theory."""
    paths = sorted(results.glob("**/*.json"))
    paths = [path for path in paths if path.parent.name not in ("reliability", "mutants")]
    return [path for path in paths if path.stem in WHOLE or not path.stem.startswith("bench")]


def remark(path: Path) -> str:
    """A sentence about the rows of a result file that are not of today's code, if there are any."""
    count = statuses(path)
    old = [f"{count[name]} of {count.total()} rows: {name}" for name in ("stale", "unknown version") if count[name]]
    return f" **Not of today's code: {', '.join(old)}** (`python -m experiments check`)." if old else ""
