"""What labels can tell: probes of the encoder and its controls, their differences, confusion, groups, robustness."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from kvicreg.evaluation.clusters import clustering
from kvicreg.evaluation.fairness import by_group
from kvicreg.evaluation.intervals import bootstrap_interval, paired_bootstrap
from kvicreg.evaluation.maps import map_subset
from kvicreg.evaluation.probes import LinearProbe, ProbeResult, few_label_probe, fit_linear_probe, knn, sgd_probe
from kvicreg.evaluation.results import measure
from kvicreg.evaluation.robustness import PASSES, RobustnessCurve, robustness
from kvicreg.evaluation.session import Session
from kvicreg.evaluation.subjects import Features, Subject, features_of, subjects_of
from kvicreg.evaluation.supervised import fine_tuning
from kvicreg.models import PretrainedEncoder

__all__ = ["confusion", "shared_key", "shifted_rows", "with_labels"]

FEW_LABELS = {"labels_1_percent": 0.01, "labels_10_percent": 0.1}
DRAWS = 3
CLUSTERED_IMAGES = 10_000
LEAST_SHIFTED, MOST_SHIFTED = 200, 2000


class Measured(NamedTuple):
    """What was measured of a subject: entries of the results, scores of each test image, its probe and its curves."""

    measures: dict[str, Any]
    scores: dict[str, Tensor]
    probe: LinearProbe
    curves: list[RobustnessCurve]


def with_labels(session: Session, encoder: Features, groups: Sequence[str] | None = None) -> dict[str, Any]:
    """The part of the results that needs labels; by group too, where the group of each test image is given."""
    data, options = session.data, session.options
    assert data.test.labels is not None
    measured: dict[str, Measured] = {}
    for subject in subjects_of(session):
        measured[subject.name] = _measured(session, subject, encoder if subject.name == "encoder" else None)
        session.scores[subject.name] = measured[subject.name].scores
    measures = {name: values.measures for name, values in measured.items()}
    labels, predictions = data.test.labels, measured["encoder"].probe.predict(encoder.test_x)
    results: dict[str, Any] = {
        "subjects": measures,
        "against": {name: _differences(session, name) for name in measures if name != "encoder"},
        "confusion": confusion(labels, predictions),
    }
    if groups is not None:
        correct = (predictions == labels).float()
        results["groups"] = by_group(correct, encoder.test_x, groups, seed=options.seed)
    if count := len(shifted_rows(session)):
        curves = {name: values.curves for name, values in measured.items() if values.curves}
        unit = "fraction of test images, probe fitted on clean images"
        results["robustness"] = {"images": count, "unit": unit, "curves": curves}
    return results


def _measured(session: Session, subject: Subject, features: Features | None = None) -> Measured:
    """All measures of a subject; of one that other runs have too, they are taken once."""

    def compute() -> Measured:
        whole = features or features_of(session, subject)
        with session.timed(f"probes: {subject.name}"):
            probe, measures, scores = _probe(session, subject.name, whole)
        if session.options.fine_tune and subject.is_tuned:
            result = _fine_tuned(session, subject.name, whole.encoder)
            scores["fine_tuning"] = result.correct
            measures["fine_tuning"] = entry(result.correct, "fine_tuning", session.options.seed, result.settings)
        curves = _curves(session, subject.name, whole.encoder, probe) if subject.has_curves else []
        return Measured(measures, scores, probe, curves)

    return session.shared.once(shared_key(session, subject), compute) if subject.is_shared else compute()


def shared_key(session: Session, subject: Subject) -> Hashable:
    """What the measures of a subject depend on."""
    options = session.options
    tuned = str(session.views.config) if options.fine_tune else None
    return (subject.name, str(subject.key), session.fingerprints, options.seed, options.robustness_images, tuned)


def _probe(session: Session, name: str, features: Features) -> tuple[LinearProbe, dict[str, Any], dict[str, Tensor]]:
    """The measures of features; the SGD probe is for what was learnt, not for controls."""
    seed, data = session.options.seed, session.data
    assert data.train.labels is not None
    assert data.test.labels is not None
    train_y, test_y = data.train.labels, data.test.labels
    sets = (features.train_x, train_y, features.test_x, test_y)
    probe = fit_linear_probe(features.train_x, train_y, seed=seed)
    results = {"linear_probe": ProbeResult.of(probe.predict(features.test_x), test_y, **probe.settings)}
    if name in ("encoder", "projector"):
        results["sgd_probe"] = sgd_probe(*sets, seed=seed)
    results["knn"] = knn(*sets, k=min(20, len(train_y)))
    scores = {key: result.correct for key, result in results.items()}
    settings = {key: result.settings for key, result in results.items()}
    for key, fraction in FEW_LABELS.items():
        draws = [few_label_probe(*sets, fraction=fraction, seed=seed + draw) for draw in range(DRAWS)]
        scores[key] = torch.stack([draw.correct for draw in draws]).mean(0)
        settings[key] = {"labels": draws[0].settings["labels"], "draws": DRAWS}
    measures = {key: entry(scores[key], key, seed, settings[key]) for key in scores}
    clusters = clustering(features.test_x[:CLUSTERED_IMAGES], test_y[:CLUSTERED_IMAGES], seed=seed)
    measures["nmi"] = measure(clusters.nmi, "nmi", clusters=clusters.clusters)
    measures["ari"] = measure(clusters.ari, "ari", clusters=clusters.clusters)
    return probe, measures, scores


def entry(scores: Tensor, key: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """The mean of the scores of each test image (m,) as an entry of the results."""
    return measure(bootstrap_interval(scores, seed=seed), key, **settings)


def _fine_tuned(session: Session, name: str, encoder: nn.Module) -> ProbeResult:
    assert isinstance(encoder, PretrainedEncoder)
    data, part = session.data, f"fine-tuning: {name}"
    with session.timed(part):
        return fine_tuning(
            encoder,
            data.train,
            data.test,
            session.views,
            seed=session.options.seed,
            progress=lambda *_: session.progress.advance(part, len(data.train)),
        )


def _differences(session: Session, name: str) -> dict[str, Any]:
    """The encoder's scores less those of another subject, on the same images."""
    encoder, other = session.scores["encoder"], session.scores[name]
    return {
        key: paired_bootstrap(encoder[key], other[key], seed=session.options.seed)._asdict()
        for key in encoder
        if key in other
    }


def confusion(labels: Tensor, predictions: Tensor) -> list[list[int]]:
    """Counts (classes, classes): row the true class, column the predicted one."""
    classes = int(max(labels.max(), predictions.max())) + 1
    return torch.bincount(labels * classes + predictions, minlength=classes**2).view(classes, classes).tolist()


def shifted_rows(session: Session) -> Tensor:
    """The test images of the robustness curves: by default so many that all shifts cost as much as the features."""
    options, (train, test) = session.options, (len(session.data.train), len(session.data.test))
    count = options.robustness_images
    if count is None:
        count = min(MOST_SHIFTED, max(LEAST_SHIFTED, (train + test) // PASSES))
    return map_subset(test, cap=count, seed=options.seed)


def _curves(session: Session, name: str, encoder: nn.Module, probe: LinearProbe) -> list[RobustnessCurve]:
    """The robustness of a probe on a sample of the test images."""
    rows, seed = shifted_rows(session), session.options.seed
    if not len(rows):
        return []
    images = session.shared.once(
        ("shifted", session.fingerprints, len(rows), seed), lambda: session.data.test.subset(rows).cached()
    )
    assert images.labels is not None
    part = f"robustness: {name}"
    with session.timed(part):
        return robustness(
            lambda alter: session.extract(part, encoder, images, alter=alter), probe, images.labels, seed=seed
        )
