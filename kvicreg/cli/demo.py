"""kvicreg demo: pretrain on the embedded images, then see what a few labels are worth on top."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvicreg.cli.flags import flag
from kvicreg.cli.process import import_lightning
from kvicreg.storage import quoted

if TYPE_CHECKING:
    from torch import Tensor

LABELS = (100, 1000)


def demo(out: Path = Path("runs/demo"), seed: int = 0) -> str:
    """Pretrain on the embedded images; compare with raw pixels and an untrained encoder.

    Example:
        kvicreg demo

    Args:
        out: run folder to write; a former demo there is replaced.
        seed: seed of the weights, the data order and the views.
    """
    from kvicreg.evaluation.evaluate import EvaluationOptions
    from kvicreg.evaluation.evaluate import evaluate as measure
    from kvicreg.report.page import write_report

    folder = train_and_probe(out, seed)
    options = EvaluationOptions(seed=seed, robustness_images=200, map_images=600)
    flags = " ".join(f"{flag(name)} {value}" for name, value in options.given().items())
    command = f"kvicreg evaluate {quoted(folder)} {flags}"
    measure(folder, options, command=command, say=lambda line: print(line, file=sys.stderr))
    page = write_report([folder])
    return f"Run folder: {folder} (encoder, metrics, and the table above). Open the page: {page}"


def train_and_probe(out: Path, seed: int) -> Path:
    """Train the recipe "demo", probe it beside raw pixels and an untrained encoder; returns the run folder.

    Each row of the table is the accuracy on the 2,000 test images, which nothing before has seen.
    """

    import_lightning()

    from rich.console import Console
    from rich.table import Table

    from kvicreg.data import load
    from kvicreg.evaluation.controls import RawPixels, random_encoder
    from kvicreg.measures.features import extract
    from kvicreg.runs import RunFolder, load_encoder, load_settings
    from kvicreg.training import train

    console = Console(soft_wrap=True, highlight=False)
    settings = load_settings("demo").replace(out=str(out), seed=seed)
    folder = train(settings, overwrite=True)

    source = settings.data.source
    images, test = load(source), load(source, "test")
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
    content = {"data": source, "seed": seed, "test_images": len(test), "accuracy": results}
    RunFolder(folder).write_demo(content)
    return folder


def scores(x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor, seed: int) -> dict[str, float]:
    """Accuracy of a linear probe with few labels, and of nearest neighbours with few labels and with all."""

    from kvicreg.evaluation.probes import knn, labelled_subset, linear_probe

    accuracy = {}
    few = {count: labelled_subset(y, count / len(y), seed) for count in LABELS}
    for count, rows in few.items():
        accuracy[f"linear probe, {count} labels"] = linear_probe(x[rows], y[rows], test_x, test_y, seed=seed).accuracy
    rows = few[LABELS[0]]
    accuracy[f"k-NN, {LABELS[0]} labels"] = knn(x[rows], y[rows], test_x, test_y, k=5).accuracy
    accuracy["k-NN, all labels"] = knn(x, y, test_x, test_y).accuracy
    return accuracy
