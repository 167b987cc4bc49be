"""Evaluate a run: features once, then probes, controls, diagnostics, robustness, groups, a map; into results.json."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kvicreg.evaluation.clusters import clustering
from kvicreg.evaluation.controls import RawPixels, random_encoder
from kvicreg.evaluation.diagnostics import diagnose
from kvicreg.evaluation.fairness import by_group, read_groups
from kvicreg.evaluation.features import FeatureCache, extract, fingerprint
from kvicreg.evaluation.intervals import bootstrap_interval, paired_bootstrap
from kvicreg.evaluation.maps import map_arrays, map_subset
from kvicreg.evaluation.probes import ProbeResult, few_label_probe, fit_linear_probe, knn, sgd_probe
from kvicreg.evaluation.results import FORMAT, arrays_path, measure, results_path, save_arrays, versions, write_results
from kvicreg.evaluation.robustness import robustness
from kvicreg.evaluation.runs import EvaluationData, Run, evaluation_data, open_run
from kvicreg.evaluation.supervised import fine_tuning, train_with_labels
from kvicreg.evaluation.verdict import verdict
from kvicreg.models import PretrainedEncoder
from kvicreg.storage import working_on

FEW_LABELS = {"labels_1_percent": 0.01, "labels_10_percent": 0.1}


@dataclass(kw_only=True)
class Options:
    """What to evaluate; each field is a flag of `kvicreg evaluate`."""

    on: str | None = None
    """Evaluate on other data than the run's own (transfer): a name or a folder; channels and sizes are adapted."""
    projector: bool = False
    """Also evaluate the projector's output."""
    fine_tune: bool = False
    """Also fine-tune the whole encoder with all labels, 10 epochs."""
    supervised: bool = False
    """Also train the same architecture with labels from scratch, for as many epochs as the run."""
    groups: str | None = None
    """Results by group: a text file with a name per test image, FILE.csv:COLUMN, or a column of groups.csv there."""
    robustness_images: int = 2000
    """Test images used for the robustness curves; 0 for none."""
    map_images: int = 3000
    """Test images on the UMAP; 0 for none."""
    seed: int = 0
    """Seed of probes, splits, intervals, the random encoder and the map."""
    batch_size: int = 256
    """Images per batch when features are computed."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU when there is one."""
    workers: int = 0
    """Processes that decode image files."""
    data_root: str | None = None
    """Where downloaded data sets live; by default the run's, KVICREG_DATA or the user's cache."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"seed must be between 0 and {2**31 - 1}, got {self.seed}")
        for name, least in {"batch_size": 1, "robustness_images": 0, "map_images": 0, "workers": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")


Say = Callable[[str], None]


@dataclass
class _Session:
    """One evaluation under way: what is shared by its parts."""

    run: Run
    data: EvaluationData
    options: Options
    device: torch.device
    say: Say
    cache: FeatureCache
    prints: tuple[str, str]  # fingerprints of train and test
    seconds: dict[str, float] = field(default_factory=dict)
    scores: dict[str, dict[str, Tensor]] = field(default_factory=dict)  # subject -> measure -> (m,) per image

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        self.say(f"{part} ...")
        start = time.perf_counter()
        yield
        self.seconds[part] = round(self.seconds.get(part, 0.0) + time.perf_counter() - start, 2)

    def features(self, name: str, encoder: nn.Module, *key: Any) -> tuple[Tensor, Tensor]:
        """Features of train and test images, from the cache when `key` (what the weights depend on) is there."""
        found = []
        with self.timed(f"features: {name}"):
            for data, mark in zip((self.data.train, self.data.test), self.prints, strict=True):
                found.append(self.cache.get(lambda data=data: self.extract(encoder, data), name, mark, *key))  # type: ignore[misc]
        return found[0], found[1]

    def extract(self, encoder: nn.Module, data: Any, **more: Any) -> Tensor:
        return extract(
            encoder, data, batch_size=self.options.batch_size, device=self.device, workers=self.options.workers, **more
        )


def evaluate(
    path: str | Path, options: Options | None = None, *, command: str | None = None, say: Say = lambda _: None
) -> dict[str, Any]:
    """Evaluate a run folder and write results.json (or results-on-DATA.json) into it; returns what it wrote.

    Args:
        path: the run folder.
        options: what to evaluate.
        command: the command line to note in the results.
        say: told what is being done, a line each.
    """
    run = open_run(path)
    with working_on(run.path, "kvicreg evaluate"):
        return _evaluate(run, options or Options(), command, say)


def _evaluate(run: Run, options: Options, command: str | None, say: Say) -> dict[str, Any]:
    device = torch.device(
        ("cuda" if torch.cuda.is_available() else "cpu") if options.device == "auto" else options.device
    )
    say(f"evaluating {run.name} on {options.on or run.config['data']}")
    data = evaluation_data(run, options.on, root=options.data_root, seed=options.seed)
    session = _Session(
        run,
        data,
        options,
        device,
        say,
        FeatureCache(run.path / "evaluation" / "features"),
        (fingerprint(data.train), fingerprint(data.test)),
    )
    encoder = run.encoder(device=device)
    train_x, test_x = session.features("encoder", encoder, run.encoder_hash)
    results: dict[str, Any] = {
        "format": FORMAT,
        "run": run.name,
        "command": command,
        "seed": options.seed,
        "versions": versions(),
        "encoder": {**run.description, "sha256": run.encoder_hash},
        "data": {
            "name": data.name,
            "train_images": len(data.train),
            "test_images": len(data.test),
            "shape": list(data.test.shape),
            "test_fingerprint": session.prints[1],
            "classes": data.test.class_names,
            "trained_on": run.config["data"],
            "adaptation": data.adaptation,
            "unreadable_files": len(data.train.unreadable) + len(data.test.unreadable),
        },
        "intervals": "95 %, bootstrap over test images; the randomness of training is not in them",
        "subjects": {"encoder": {}},
        "against": {},
    }
    known = None if data.test.labels is None else data.test.labels[:10_000]
    with session.timed("diagnostics"):
        results["diagnostics"] = diagnose(test_x[:10_000], known, _two_views(session, encoder), seed=options.seed)
        results["diagnostics"] = vars(results["diagnostics"])
        results["history"] = training_history(run.path)
    if data.train.labels is not None and data.test.labels is not None:
        _with_labels(session, encoder, train_x, test_x, results)
    elif options.groups or options.supervised or options.fine_tune:
        raise ValueError(f"{data.name} has no labels: --groups, --supervised and --fine-tune need them")
    results["verdict"] = verdict(results)
    if options.map_images:
        _map(session, test_x)
    results["seconds"] = session.seconds
    results["finished"] = time.strftime("%Y-%m-%d %H:%M:%S")
    arrays = {f"{s}|{m}": v.numpy() for s, measures in session.scores.items() for m, v in measures.items()}
    scores = arrays_path(run.path, "scores", options.on)
    save_arrays(scores, fingerprint=np.array(session.prints[1]), **arrays)
    write_results(results_path(run.path, options.on), results)
    return results


def _with_labels(
    session: _Session, encoder: PretrainedEncoder, train_x: Tensor, test_x: Tensor, results: dict[str, Any]
) -> None:
    """Probes of the encoder and its controls, significance, confusion, robustness and groups."""
    run, data, options = session.run, session.data, session.options
    assert data.train.labels is not None
    assert data.test.labels is not None
    train_y, test_y = data.train.labels, data.test.labels
    subjects: dict[str, tuple[nn.Module, Tensor, Tensor]] = {"encoder": (encoder, train_x, test_x)}
    pixels = RawPixels(data.test.shape)
    subjects["raw pixels"] = (pixels, *session.features("raw pixels", pixels))
    if run.description["architecture"]["name"] != "custom":
        untrained = random_encoder(encoder, seed=options.seed)
        key = (run.description["architecture"], run.description["mean"], options.seed)
        subjects["random encoder"] = (untrained, *session.features("random encoder", untrained, *key))
    if options.projector:
        whole = run.encoder(projector=True, device=session.device)
        subjects["projector"] = (whole, *session.features("projector", whole, run.encoder_hash))
    if options.supervised:
        with session.timed("supervised control"):
            epochs = int(run.config.get("epochs", 10))
            start = random_encoder(encoder, seed=options.seed)
            taught, _ = train_with_labels(start, data.train, run.views(), epochs=epochs, seed=options.seed)
        subjects["supervised"] = (
            taught,
            *session.features("supervised", taught, epochs, run.encoder_hash, options.seed),
        )
    probes = {}
    for name, (_, x, y) in subjects.items():
        with session.timed(f"probes: {name}"):
            probes[name], results["subjects"][name] = _probe(session, name, x, train_y, y, test_y)
    if options.fine_tune:
        with session.timed("fine-tuning"):
            tuned = fine_tuning(encoder, data.train, data.test, run.views(), seed=options.seed)
        results["subjects"]["encoder"]["fine_tuning"] = _scored(session, "encoder", "fine_tuning", tuned)
    for name in list(subjects)[1:]:
        results["against"][name] = {
            key: paired_bootstrap(
                session.scores["encoder"][key], session.scores[name][key], seed=options.seed
            )._asdict()
            for key in ("linear_probe", "knn")
        }
    predictions = probes["encoder"].predict(test_x)
    results["confusion"] = confusion(test_y, predictions)
    if options.groups:
        correct = (predictions == test_y).float()
        results["groups"] = by_group(correct, test_x, read_groups(options.groups, data.test), seed=options.seed)
    if options.robustness_images:
        kept = map_subset(len(data.test), cap=options.robustness_images, seed=options.seed)
        shown = data.test.subset(kept)
        results["robustness"] = {"images": len(kept), "unit": "fraction of test images, probe fitted on clean images"}
        results["robustness"]["curves"] = {}
        for name in ("encoder", "raw pixels", "random encoder"):
            if name in subjects:
                with session.timed(f"robustness: {name}"):
                    results["robustness"]["curves"][name] = robustness(
                        lambda alter, model=subjects[name][0]: session.extract(model, shown, alter=alter),  # type: ignore[misc]
                        probes[name], test_y[kept], seed=options.seed,
                    )  # fmt: skip


def _probe(session: _Session, name: str, train_x: Tensor, train_y: Tensor, test_x: Tensor, test_y: Tensor) -> Any:
    """All measures of one subject; the SGD probe and the few labels are for what was learnt, not for controls."""
    seed = session.options.seed
    sets = (train_x, train_y, test_x, test_y)
    probe = fit_linear_probe(train_x, train_y, seed=seed)
    linear = ProbeResult.of(probe.predict(test_x), test_y, **probe.settings)
    found = {"linear_probe": _scored(session, name, "linear_probe", linear)}
    if name in ("encoder", "projector"):
        found["sgd_probe"] = _scored(session, name, "sgd_probe", sgd_probe(*sets, seed=seed))
    found["knn"] = _scored(session, name, "knn", knn(*sets, k=min(20, len(train_x))))
    for key, fraction in FEW_LABELS.items():
        draws = [few_label_probe(*sets, fraction=fraction, seed=seed + draw) for draw in range(3)]
        mean = torch.stack([draw.correct for draw in draws]).mean(0)
        session.scores[name][key] = mean
        labels = draws[0].settings["labels"]
        found[key] = measure(bootstrap_interval(mean, seed=seed), key, labels=labels, draws=3)
    clusters = clustering(test_x[:10_000], test_y[:10_000], seed=seed)
    found["nmi"] = measure(clusters.nmi, "nmi", clusters=clusters.clusters)
    found["ari"] = measure(clusters.ari, "ari", clusters=clusters.clusters)
    return probe, found


def _scored(session: _Session, name: str, key: str, result: ProbeResult) -> dict[str, Any]:
    session.scores.setdefault(name, {})[key] = result.correct
    return measure(bootstrap_interval(result.correct, seed=session.options.seed), key, **result.settings)


def confusion(labels: Tensor, predictions: Tensor) -> list[list[int]]:
    """Counts (classes, classes): row the true class, column the predicted one."""
    classes = int(max(labels.max(), predictions.max())) + 1
    return torch.bincount(labels * classes + predictions, minlength=classes**2).view(classes, classes).tolist()


def training_history(run: Path) -> dict[str, Any]:
    """First and last value of each term and of the spectrum's summary, from metrics.csv; empty without one."""
    try:
        with (run / "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = {"epochs": len(rows)}
    for key in ("loss", "invariance", "variance", "covariance", "effective_rank", "top_eigenvalue", "embedding_scale"):
        values = [float(row[key]) for row in rows if row.get(key)]
        if values:
            found[key] = {"first": values[0], "last": values[-1]}
    return found


def _two_views(session: _Session, encoder: PretrainedEncoder, count: int = 1000) -> tuple[Tensor, Tensor]:
    """Features of two random views, those of training, of the first test images."""
    views, shown = session.run.views(), session.data.test.subset(torch.arange(min(count, len(session.data.test))))

    def features(view: int) -> Tensor:
        def look(images: Tensor, samples: Tensor) -> Tensor:
            return views(images, samples, seed=session.options.seed, epoch=0, view=view)

        return session.extract(encoder, shown, alter=look, preprocess=lambda x: x)

    return features(0), features(1)


def _map(session: _Session, test_x: Tensor) -> None:
    """map.npz, for the report: where each image lies, what it looks like, and its neighbours."""
    test, seed = session.data.test, session.options.seed
    kept = map_subset(len(test), cap=session.options.map_images, seed=seed)
    with session.timed(f"map of {len(kept)} images by UMAP (its first call compiles, which takes up to a minute)"):
        arrays = map_arrays(test_x[kept], test.subset(kept), seed=seed)
        arrays |= {"indices": kept.numpy(), "fingerprint": np.array(session.prints[1])}
        save_arrays(arrays_path(session.run.path, "map", session.options.on), **arrays)
