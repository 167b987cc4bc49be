"""Which version of the code a number rests on, told by what the code does and not by how it is written.

The fingerprint of a row is a step of its training in miniature, in float64, with its own method, kernel, loss settings
and views on a small encoder and made-up images: the loss, and the norm of its gradient; two numbers of the probes on
made-up features; and of its own kind of encoder, with all its views and local crops, the norm of the gradient and how
far a step of its own optimizer goes. Refactoring leaves them, a change that matters moves them, and the row is stale.
Rows from before the last two are judged by the others, so a change of ResNet-18 or Adam does not show there; rows from
before fingerprints have none: their version is unknown. A file of times has digests of the folders that it is of.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.common.cells import UNTRAINED, Row, identity
from kvicreg.benchmarks.measure import code_of
from kvicreg.data import ArrayData, Views
from kvicreg.evaluation.probes import fit_linear_probe, knn
from kvicreg.methods import Method
from kvicreg.options import Values
from kvicreg.runs import Settings
from kvicreg.training.build import build_method, build_views, resolve
from kvicreg.training.module import SelfSupervised
from kvicreg.training.schedule import learning_rate

TOLERANCE = 1e-3
"""Relative; what machines and versions of torch differ by is far below, and what moves a table is above."""
SMALL = Settings.of(
    width=0.25, pool=1, projector_layers=2, projector_hidden=32, projector_outputs=32, image_size=16, channels=3,
    batch_size=32,
)  # fmt: skip


WITHOUT_LAST = 4
"""Numbers in the fingerprint of a trained row from before it had the last two."""

LABELS = torch.arange(64) % 4
"""Of the made-up images."""


def fingerprint(row: Row, *, moved: bool = True) -> str:
    """Loss and gradient of a step (of a control nothing), two numbers of the probes and, if wanted, how it `moved`."""
    if row["method"] in UNTRAINED:
        return as_text(*_probes())
    whole = _read(row["config"])
    data = replace(SMALL.data, source=whole.data.short_name)
    small = replace(SMALL, data=data, views=whole.views, method=whole.method)
    last = _moved(_like(whole, small)) if moved else ()
    return as_text(*_step(small), *_probes(), *last)


def _read(config: dict[str, Any]) -> Settings:
    """The settings of a row, without groups."""
    given = {name: value for name, value in config.items() if not name.startswith("group")}
    return Settings.read(Values({name: value for name, value in identity(given).items() if value is not None}))


def _like(whole: Settings, small: Settings) -> Settings:
    """The small settings with the encoder (of other libraries none), projector, optimizer and schedule of a row."""
    is_ours = whole.model.encoder.choice == whole.model.encoder.name
    encoder = whole.model.encoder.replace(width=0.25) if is_ours else small.model.encoder
    projector = replace(whole.model.projector, projector_hidden=32, projector_outputs=32)
    model = replace(small.model, encoder=encoder, projector=projector, norm=whole.model.norm)
    schedule = replace(whole.schedule, batch_size=small.schedule.batch_size)
    return replace(small, model=model, optimizer=whole.optimizer, schedule=schedule)


def _made_up(settings: Settings) -> tuple[ArrayData, Tensor, Method, Views]:
    """Images, which of them are a batch, and the method and the views of settings for them, in float64."""
    pixels = torch.randint(256, (64, 3, 16, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    data = ArrayData(pixels, LABELS, name=settings.data.short_name)
    views = build_views(settings, data)
    method = build_method(resolve(settings, data, views)).double()
    return data, torch.arange(max(32, method.least_batch)), method, views


@cache
def _step(settings: Settings) -> tuple[float, float]:
    """The loss of two views and the norm of its gradient."""
    with torch.random.fork_rng(devices=[]):
        data, samples, method, views = _made_up(settings)
        pair = [views(data.fetch(samples), samples, seed=0, epoch=0, view=view).double() for view in (0, 1)]
        loss = method(pair, 0, LABELS[samples]).loss
        loss.backward()
    return loss.item(), _norm(p.grad for p in method.parameters() if p.grad is not None)


@cache
def _moved(settings: Settings) -> tuple[float, float]:
    """The gradient of all views, and how far all weights go in a step, a third of the way through the schedule."""
    with torch.random.fork_rng(devices=[]):
        data, samples, method, views = _made_up(settings)
        module = SelfSupervised(method, settings, data=data, views=views)
        seen = [view.double() for view in module.views_of(data.fetch(samples), samples)]
        method(seen, 0, LABELS[samples]).loss.backward()
    optimizer, schedule = module.configure_optimizers(), settings.schedule
    course = {"warmup": 10 * schedule.warmup_epochs, "final": schedule.final_learning_rate}
    peak, total = settings.optimizer.learning_rate, 10 * schedule.total_epochs
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(total // 3, total=total, peak=peak, **course) * group.get("rate", 1.0)
    before = [p.detach().clone() for p in method.parameters()]
    gradient = _norm(p.grad for p in method.parameters() if p.grad is not None)
    optimizer.step()
    method.after_step(1, total)
    return gradient, _norm(p - old for p, old in zip(method.parameters(), before, strict=True))


def _norm(tensors: Iterable[Tensor]) -> float:
    return torch.stack([tensor.detach().square().sum() for tensor in tensors]).sum().sqrt().item()


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
    if path.stem.startswith("bench"):
        code = table.get("code")
        return Counter([NAMES[code and code == code_of(*code)]])
    count: Counter[str] = Counter()
    for row in table["rows"]:
        config = {**table.get("shared", {}), **table.get("settings", {}), **row.get("settings", {})}
        config |= {"data": table["data"]} if "data" in table else {}
        whole = {"method": row.get("method", ""), "config": {**config, **row.get("config", {})}}
        mark = row.get("fingerprint")
        same = agrees(mark, fingerprint(whole, moved=len(mark.split()) > WITHOUT_LAST)) if mark else None
        count[NAMES[same]] += "error" not in row
    return count


WHOLE = ("theory", "tables", "pull", "bench-photographs")
"""Result files whose module has one fingerprint for all of their numbers."""
NAMES = {True: "current", False: "stale", None: "unknown version"}


def result_files(results: Path) -> list[Path]:
    """The result files whose numbers come from training, from the theory, or from a clock."""
    paths = sorted(results.glob("**/*.json"))
    return [path for path in paths if path.parent.name not in ("reliability", "mutants")]


def remark(path: Path) -> str:
    """A sentence about the rows of a result file that are not of today's code, if there are any."""
    count = statuses(path)
    old = [f"{count[name]} of {count.total()} rows: {name}" for name in ("stale", "unknown version") if count[name]]
    return f" **Not of today's code: {', '.join(old)}** (`python -m experiments check`)." if old else ""
