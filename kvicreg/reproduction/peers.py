"""All methods under one roof: same encoder, images, views, optimizer, budget and evaluation, in one table.

`kvicreg reproduce peers` writes it as Markdown, CSV and JSON. Controls: raw pixels, the same encoder untrained, and
the same encoder trained with labels.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import nn

from kvicreg.data import ImageData, load
from kvicreg.evaluation.controls import RawPixels, random_encoder
from kvicreg.evaluation.features import extract
from kvicreg.evaluation.probes import knn, labelled_subset, linear_probe
from kvicreg.methods import METHODS
from kvicreg.models import load_encoder
from kvicreg.storage import write_atomically
from kvicreg.training.config import TrainConfig
from kvicreg.training.run import train

__all__ = ["PEERS", "measure", "run"]

FEW_LABELS = 1000
KERNELS = ("linear", "laplacian", "rq")  # of Kernel VICReg, beside rbf, which every kernel method runs with
PEERS: tuple[tuple[str, str | None], ...] = tuple(
    (method, kernel)
    for method in METHODS
    for kernel in (("rbf",) if method.startswith("kernel-") else (None,)) + (KERNELS * (method == "kernel-vicreg"))
)
"""(method, kernel) of every row."""


def run(
    config: TrainConfig,
    out: Path,
    *,
    seeds: Sequence[int] = (0,),
    peers: Sequence[tuple[str, str | None]] = PEERS,
    runs: Path = Path("runs/peers"),
    say: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Train and measure every peer with every seed; write ``out/peers-DATA.md``, ``.csv`` and ``.json``.

    Args:
        config: what all peers share; each keeps its own loss settings.
        runs: where the run folders go; what is there is replaced.
    """
    train_data, test_data = load(config.data, root=config.data_root), load(config.data, "test", root=config.data_root)
    if train_data.labels is None or test_data.labels is None:
        raise ValueError(f"{config.data!r} has no labelled train and test images to compare methods on")
    rows = [_row("raw pixels", None, None, 0.0, RawPixels(train_data.shape), train_data, test_data, 0)]
    for seed in seeds:
        for method, kernel in peers:
            name = method if kernel is None else f"{method} ({kernel})"
            folder = runs / f"{Path(config.data).name}-{method}{f'-{kernel}' if kernel else ''}-{seed}"
            own: dict[str, Any] = {
                "method": method,
                "kernel": kernel or config.kernel,
                "seed": seed,
                "out": str(folder),
            }
            settings = replace(config, **own)
            started = time.perf_counter()
            train(settings, quiet=True, overwrite=True)
            seconds = time.perf_counter() - started
            encoder = load_encoder(folder)
            if (method, kernel) == peers[0]:
                untrained = random_encoder(encoder, seed=seed)
                rows.append(_row("random encoder", None, seed, 0.0, untrained, train_data, test_data, seed))
            rows.append(_row(name, kernel, seed, seconds, encoder, train_data, test_data, seed))
            say("  ".join(f"{key} {_cell(rows[-1][key])}" for key in rows[-1] if key not in ("kernel",)))
    _write(rows, config, out, say)
    return rows


def _row(
    name: str,
    kernel: str | None,
    seed: int | None,
    seconds: float,
    encoder: nn.Module,
    train_data: ImageData,
    test_data: ImageData,
    probe_seed: int,
) -> dict[str, Any]:
    found = measure(encoder, train_data, test_data, seed=probe_seed)
    return {"method": name, "kernel": kernel, "seed": seed, **found, "seconds": round(seconds, 1)}


def measure(encoder: nn.Module, train_data: ImageData, test_data: ImageData, *, seed: int = 0) -> dict[str, float]:
    """Test accuracy of linear probes with all labels and with few, and of 20 nearest neighbours."""
    x, t = extract(encoder, train_data), extract(encoder, test_data)
    y, u = train_data.labels, test_data.labels
    assert y is not None
    assert u is not None
    few = labelled_subset(y, FEW_LABELS / len(y), seed) if len(y) > FEW_LABELS else torch.arange(len(y))
    return {
        "probe": linear_probe(x, y, t, u, seed=seed, C=0.01).accuracy,
        "probe_few": linear_probe(x[few], y[few], t, u, seed=seed, C=0.01).accuracy,
        "knn": knn(x, y, t, u).accuracy,
    }


def _write(rows: list[dict[str, Any]], config: TrainConfig, out: Path, say: Callable[[str], None]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    stem = f"peers-{Path(config.data).name}"
    shared = {
        name: getattr(config, name)
        for name in (
            "data", "encoder", "width", "pool", "epochs", "batch_size", "optimizer", "learning_rate", "weight_decay",
            "warmup_epochs", "projector_layers", "projector_hidden", "projector_outputs",
        )
    }  # fmt: skip
    content = {"shared": shared, "few_labels": FEW_LABELS, "threads": torch.get_num_threads(), "rows": rows}
    write_atomically(out / f"{stem}.json", json.dumps(content, indent=1).encode() + b"\n")
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(out / f"{stem}.csv", text.getvalue().encode())
    table = markdown(rows, shared)
    write_atomically(out / f"{stem}.md", table.encode())
    say(table)


def markdown(rows: list[dict[str, Any]], shared: dict[str, Any]) -> str:
    """The table, best linear probe first: means over seeds, with the range where there are several."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    of = {name: [row for row in rows if row["method"] == name] for name in names}
    names.sort(key=lambda name: -mean(row["probe"] for row in of[name]))
    lines = [
        "| method | linear probe | probe, 1,000 labels | 20-NN | seeds | seconds of training |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        cells = [_percent([row[key] for row in of[name]]) for key in ("probe", "probe_few", "knn")]
        seconds = mean(row["seconds"] for row in of[name])
        lines.append(f"| {name} | {' | '.join(cells)} | {len(of[name])} | {seconds:.0f} |")
    settings = ", ".join(f"{key} {value}" for key, value in shared.items())
    note = "Test accuracy in percent; mean over seeds (least to most). Linear probe: logistic regression, C = 0.01."
    return "\n".join([*lines, "", note, f"Shared by all: {settings}.", ""])


def _percent(values: list[float]) -> str:
    spread = f" ({100 * min(values):.1f} to {100 * max(values):.1f})" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
