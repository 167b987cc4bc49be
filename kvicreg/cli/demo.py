"""The demo: pretrain on the embedded images, then see what a few labels are worth on top."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from kvicreg.evaluation.features import extract
from kvicreg.training.config import load_config
from rich.console import Console
from rich.table import Table
from torch import Tensor

from kvicreg.data import load
from kvicreg.evaluation.controls import RawPixels, random_encoder
from kvicreg.evaluation.probes import knn, labelled_subset, linear_probe
from kvicreg.models import load_encoder
from kvicreg.storage import write_atomically
from kvicreg.training.run import train

LABELS = (100, 1000)


def run(out: Path = Path("runs/demo"), seed: int = 0) -> Path:
    """Train the recipe "demo", probe it beside raw pixels and an untrained encoder; returns the run folder.

    Each row of the table is the accuracy on the 2,000 test images, which nothing before has seen.
    """
    console = Console(soft_wrap=True, highlight=False)
    config = replace(load_config("demo"), out=str(out), seed=seed)
    folder = train(config, overwrite=True)

    images, test = load(config.data), load(config.data, "test")
    assert images.labels is not None
    assert test.labels is not None
    trained = load_encoder(folder)
    encoders = {
        "raw pixels": RawPixels(images.shape),
        "untrained encoder": random_encoder(trained, seed=seed),
        "Kernel VICReg": trained,
    }
    results: dict[str, dict[str, float]] = {}
    for name, encoder in encoders.items():
        x, t = extract(encoder, images), extract(encoder, test)
        results[name] = scores(x, images.labels, t, test.labels, seed)

    columns = list(results["Kernel VICReg"])
    table = Table("test accuracy, %", *columns, box=None, header_style="bold")
    for name, row in results.items():
        table.add_row(name, *(f"{100 * row[c]:.1f}" for c in columns))
    console.print(table)
    content = {"data": config.data, "seed": seed, "test_images": len(test), "accuracy": results}
    write_atomically(folder / "demo.json", json.dumps(content, indent=2).encode() + b"\n")
    return folder


def scores(x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor, seed: int) -> dict[str, float]:
    """Accuracy of a linear probe with few labels, and of nearest neighbours with few labels and with all."""
    found = {}
    few = {count: labelled_subset(y, count / len(y), seed) for count in LABELS}
    for count, kept in few.items():
        found[f"linear probe, {count} labels"] = linear_probe(x[kept], y[kept], test_x, test_y, seed=seed).accuracy
    kept = few[LABELS[0]]
    found[f"k-NN, {LABELS[0]} labels"] = knn(x[kept], y[kept], test_x, test_y, k=5).accuracy
    found["k-NN, all labels"] = knn(x, y, test_x, test_y).accuracy
    return found
