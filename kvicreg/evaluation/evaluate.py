"""Evaluate a run: features once, then probes, controls, diagnostics, robustness, groups and a map, into its results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kvicreg.data import ImageData
from kvicreg.data.groups import read_groups
from kvicreg.evaluation.diagnostics import diagnose
from kvicreg.evaluation.labelled import with_labels
from kvicreg.evaluation.maps import map_arrays, map_subset
from kvicreg.evaluation.options import EvaluationOptions
from kvicreg.evaluation.parts import parts_of
from kvicreg.evaluation.progress import Progress, Say
from kvicreg.evaluation.results import versions
from kvicreg.evaluation.session import Session, Shared
from kvicreg.evaluation.subjects import Features, features_of, subjects_of
from kvicreg.evaluation.verdict import verdict
from kvicreg.runs import RunFolder
from kvicreg.runs.metrics import Metrics
from kvicreg.runs.results import FORMAT, write_results

__all__ = ["EvaluationOptions", "evaluate", "training_history"]

DIAGNOSED_IMAGES, VIEWED_IMAGES = 10_000, 1000
HISTORY = ("loss", "invariance", "variance", "covariance", "effective_rank", "top_eigenvalue", "embedding_scale")


def evaluate(
    path: str | Path,
    options: EvaluationOptions | None = None,
    *,
    data: ImageData | None = None,
    test: ImageData | None = None,
    command: str | None = None,
    say: Say = lambda _: None,
    progress: Progress | None = None,
    shared: Shared | None = None,
) -> dict[str, Any]:
    """Evaluate a run folder and write the results (of other data: results of their own) into it; returns them.

    Args:
        path: the run folder.
        options: what to evaluate.
        data: the images that the run was trained on, where they were given from Python.
        test: images to score probes on, with those; by default a fifth of them.
        command: the command line to note in the results.
        say: is given a line for each part that begins.
        progress: how far several evaluations are, in place of `say`.
        shared: what the evaluations of other runs have left: images and controls that are the same are not measured
            again.
    """
    run, options = RunFolder.open(path), options or EvaluationOptions()
    progress = progress or Progress(say)
    with run.lock("kvicreg evaluate"):
        session = Session(run, options, progress, shared, data, test)
        progress.begin(f"evaluating {run.name} on {session.data.name}", parts_of(session))
        results = _measure(session, command)
        arrays = {f"{s}|{m}": v.numpy() for s, measures in session.scores.items() for m, v in measures.items()}
        run.write_arrays("scores", options.on, fingerprint=np.array(session.fingerprints[1]), **arrays)
        write_results(run.results_path(options.on), results)
    return results


def _measure(session: Session, command: str | None) -> dict[str, Any]:
    """All results of an evaluation."""
    data, options = session.data, session.options
    if not data.labelled and (options.groups or options.supervised or options.fine_tune):
        raise ValueError(f"{data.name} has no labels: --groups, --supervised and --fine-tune need them")
    groups = read_groups(options.groups, data.test) if options.groups else None
    encoder = features_of(session, subjects_of(session)[0])
    results = _header(session, command)
    with session.timed("diagnostics"):
        results["diagnostics"] = _diagnostics(session, encoder)
        results["history"] = training_history(session.run.metrics())
    if data.labelled:
        results |= with_labels(session, encoder, groups)
    results["verdict"] = verdict(results)
    if options.map_images:
        _map(session, encoder.test_x)
    return results | {"seconds": session.progress.seconds, "finished": time.strftime("%Y-%m-%d %H:%M:%S")}


def _header(session: Session, command: str | None) -> dict[str, Any]:
    """What was evaluated, on what, and how; with places for what the labels tell."""
    run, data = session.run, session.data
    return {
        "format": FORMAT,
        "run": run.name,
        "command": command,
        "seed": session.options.seed,
        "versions": versions(),
        "encoder": {**run.description, "sha256": run.encoder_hash},
        "data": {
            "name": data.name,
            "train_images": len(data.train),
            "test_images": len(data.test),
            "shape": list(data.test.shape),
            "test_fingerprint": session.fingerprints[1],
            "classes": data.test.class_names,
            "trained_on": run.settings.data.source,
            "adaptation": data.adaptation,
            "unreadable_files": len(data.train.unreadable) + len(data.test.unreadable),
        },
        "intervals": "95 %, bootstrap over test images; the randomness of training is not in them",
        "subjects": {"encoder": {}},
        "against": {},
    }


def _diagnostics(session: Session, encoder: Features) -> dict[str, Any]:
    labels = session.data.test.labels
    return vars(
        diagnose(
            encoder.test_x[:DIAGNOSED_IMAGES],
            None if labels is None else labels[:DIAGNOSED_IMAGES],
            (_view(session, encoder, 0), _view(session, encoder, 1)),
            seed=session.options.seed,
        )
    )


def _view(session: Session, encoder: Features, view: int) -> Tensor:
    """Features of a random view, as in training, of the first test images."""
    images = session.data.test.subset(torch.arange(min(VIEWED_IMAGES, len(session.data.test))))

    def look(images: Tensor, samples: Tensor) -> Tensor:
        return session.views(images, samples, seed=session.options.seed, epoch=0, view=view)

    return session.extract("diagnostics", encoder.encoder, images.for_views(), alter=look, preprocess=lambda x: x)


def training_history(metrics: Metrics) -> dict[str, Any]:
    """First and last value of each term and of the spectrum's summary; empty without a record."""
    if not metrics.columns:
        return {}
    history: dict[str, Any] = {"epochs": len(metrics.columns["epoch"])}
    for key in HISTORY:
        if values := metrics.measured(key):
            history[key] = {"first": values[0], "last": values[-1]}
    return history


def _map(session: Session, test_x: Tensor) -> None:
    """Write the map for the report: where each image lies, what it looks like, and its neighbours."""
    test, seed = session.data.test, session.options.seed
    rows = map_subset(len(test), cap=session.options.map_images, seed=seed)
    title = f"map of {len(rows)} images by UMAP (its first call compiles, which takes up to a minute)"
    with session.timed("map", title):
        arrays = map_arrays(test_x[rows], test.subset(rows), seed=seed)
        arrays |= {"indices": rows.numpy(), "fingerprint": np.array(session.fingerprints[1])}
        session.run.write_arrays("map", session.options.on, **arrays)
