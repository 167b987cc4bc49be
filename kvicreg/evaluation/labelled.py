"""What labels can tell: probes of the encoder and its controls, their differences, confusion, groups, robustness."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvicreg.data import ImageData
from kvicreg.data.groups import read_groups
from kvicreg.evaluation.clusters import clustering
from kvicreg.evaluation.fairness import by_group
from kvicreg.evaluation.intervals import paired_bootstrap
from kvicreg.evaluation.maps import map_subset
from kvicreg.evaluation.probes import LinearProbe, ProbeResult, few_label_probe, fit_linear_probe, knn, sgd_probe
from kvicreg.evaluation.results import measure
from kvicreg.evaluation.robustness import RobustnessCurve, robustness
from kvicreg.evaluation.session import Session
from kvicreg.evaluation.subjects import Subject, other_subjects
from kvicreg.evaluation.supervised import fine_tuning

__all__ = ["confusion", "with_labels"]

FEW_LABELS = {"labels_1_percent": 0.01, "labels_10_percent": 0.1}
DRAWS = 3
CLUSTERED_IMAGES = 10_000


def with_labels(session: Session, encoder: Subject) -> dict[str, Any]:
    """The part of the results that needs labels."""
    data, options = session.data, session.options
    assert data.test.labels is not None
    labels = data.test.labels
    subjects = {"encoder": encoder, **other_subjects(session)}
    probes: dict[str, LinearProbe] = {}
    measures: dict[str, dict[str, Any]] = {}
    for name, subject in subjects.items():
        with session.timed(f"probes: {name}"):
            probes[name], measures[name] = _probe(session, name, subject)
    if options.fine_tune:
        measures["encoder"]["fine_tuning"] = _fine_tuned(session)
    predictions = probes["encoder"].predict(encoder.test_x)
    results: dict[str, Any] = {
        "subjects": measures,
        "against": {name: _differences(session, name) for name in subjects if name != "encoder"},
        "confusion": confusion(labels, predictions),
    }
    if options.groups:
        names = read_groups(options.groups, data.test)
        correct = (predictions == labels).float()
        results["groups"] = by_group(correct, encoder.test_x, names, seed=options.seed)
    if options.robustness_images:
        results["robustness"] = _robustness(session, subjects, probes)
    return results


def _probe(session: Session, name: str, subject: Subject) -> tuple[LinearProbe, dict[str, Any]]:
    """All measures of one subject; the SGD probe is for what was learnt, not for controls."""
    seed, data = session.options.seed, session.data
    assert data.train.labels is not None
    assert data.test.labels is not None
    train_y, test_y = data.train.labels, data.test.labels
    sets = (subject.train_x, train_y, subject.test_x, test_y)
    probe = fit_linear_probe(subject.train_x, train_y, seed=seed)
    results = {"linear_probe": ProbeResult.of(probe.predict(subject.test_x), test_y, **probe.settings)}
    if name in ("encoder", "projector"):
        results["sgd_probe"] = sgd_probe(*sets, seed=seed)
    results["knn"] = knn(*sets, k=min(20, len(train_y)))
    measures = {key: session.record(name, key, result.correct, **result.settings) for key, result in results.items()}
    for key, fraction in FEW_LABELS.items():
        draws = [few_label_probe(*sets, fraction=fraction, seed=seed + draw) for draw in range(DRAWS)]
        mean = torch.stack([draw.correct for draw in draws]).mean(0)
        measures[key] = session.record(name, key, mean, labels=draws[0].settings["labels"], draws=DRAWS)
    clusters = clustering(subject.test_x[:CLUSTERED_IMAGES], test_y[:CLUSTERED_IMAGES], seed=seed)
    measures["nmi"] = measure(clusters.nmi, "nmi", clusters=clusters.clusters)
    measures["ari"] = measure(clusters.ari, "ari", clusters=clusters.clusters)
    return probe, measures


def _fine_tuned(session: Session) -> dict[str, Any]:
    data = session.data
    with session.timed("fine-tuning"):
        result = fine_tuning(session.encoder, data.train, data.test, session.views, seed=session.options.seed)
    return session.record("encoder", "fine_tuning", result.correct, **result.settings)


def _differences(session: Session, name: str) -> dict[str, Any]:
    """The encoder's scores less those of another subject, on the same images."""
    encoder, other = session.scores["encoder"], session.scores[name]
    return {
        key: paired_bootstrap(encoder[key], other[key], seed=session.options.seed)._asdict()
        for key in ("linear_probe", "knn")
    }


def confusion(labels: Tensor, predictions: Tensor) -> list[list[int]]:
    """Counts (classes, classes): row the true class, column the predicted one."""
    classes = int(max(labels.max(), predictions.max())) + 1
    return torch.bincount(labels * classes + predictions, minlength=classes**2).view(classes, classes).tolist()


def _robustness(session: Session, subjects: dict[str, Subject], probes: dict[str, LinearProbe]) -> dict[str, Any]:
    """Curves of the encoder and of the controls that learnt nothing, on a sample of the test images."""
    rows = map_subset(len(session.data.test), cap=session.options.robustness_images, seed=session.options.seed)
    images = session.data.test.subset(rows)
    curves = {}
    for name in ("encoder", "raw pixels", "random encoder"):
        if name in subjects:
            with session.timed(f"robustness: {name}"):
                curves[name] = _curves(session, subjects[name], probes[name], images)
    return {"images": len(rows), "unit": "fraction of test images, probe fitted on clean images", "curves": curves}


def _curves(session: Session, subject: Subject, probe: LinearProbe, images: ImageData) -> list[RobustnessCurve]:
    assert images.labels is not None
    return robustness(
        lambda alter: session.extract(subject.encoder, images, alter=alter),
        probe,
        images.labels,
        seed=session.options.seed,
    )
