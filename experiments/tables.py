"""Does Kernel VICReg help on tables? Beside PCA, kernel PCA, an untrained network and the columns themselves."""

from __future__ import annotations

import gzip
import io
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from scipy.io import arff
from sklearn import datasets
from sklearn.decomposition import PCA, KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.common import Experiment, Job, Result, write
from experiments.common.tables import markdown
from experiments.common.versions import as_text, remark
from kvicreg.sklearn import KernelVICReg

OPENML = Path(sklearn.__file__).parent / "datasets" / "tests" / "data" / "openml"
TABLES = {
    "wine": "load_wine",
    "breast cancer": "load_breast_cancer",
    "digits": "load_digits",
    "penguins": (42585, "species"),
    "glass": (40675, "class"),
    "chess endgames": (3, "class"),
}
"""Functions of scikit-learn, and tables of OpenML that come with its tests, with the column that is told."""
ROWS, WIDTH = 600, 8
METHODS = ("all columns", "PCA", "kernel PCA", "untrained network", "Kernel VICReg")
LABELS = {"all": 1.0, "a tenth": 0.1}
Row = dict[str, Any]


@dataclass(frozen=True)
class Tables(Experiment, name="tables"):
    """Cross-validated accuracy of a linear classifier on features of one width, on six tables.

    Features are made of the training rows without their labels. What is tuned (the views, the bandwidth of kernel PCA,
    the classifier's C) is chosen by cross-validation within the training rows. Rows that OUT/tables.json has already
    are not measured again. Takes minutes. Writes OUT/tables.json.

    Example:
        python -m experiments tables --out docs/results
    """

    page = "tables.md"
    few = {"tables": ("wine",), "folds": 2}

    tables: tuple[str, ...] = tuple(TABLES)
    """Which tables."""
    folds: int = 3
    """Parts of the cross-validation, each the test rows once."""

    def run(self, job: Job) -> Result:
        path = job.out / f"{self.name}.json"
        rows: list[Row] = json.loads(path.read_text())["rows"] if path.is_file() else []
        done = {(row["table"], row["seed"], row["fold"]) for row in rows}
        for seed in job.seeds or ((0,) if job.budget == "smoke" else self.usual_seeds):
            for table in self.tables:
                for fold, split in enumerate(self.splits(table, seed)):
                    if (table, seed, fold) not in done:
                        place = {"table": table, "seed": seed, "fold": fold, "fingerprint": tables_fingerprint()}
                        rows += [place | row for row in measured(*split, seed=seed)]
                        write(path, {"folds": self.folds, "rows_at_most": ROWS, "rows": rows})
                job.say(f"{table}, seed {seed}: {self.folds} folds")
        return Result(job, [], [])

    @classmethod
    def for_page(cls, results: Path) -> str:
        path = results / "tables.json"
        return as_markdown(json.loads(path.read_text())["rows"]) + remark(path)

    def splits(self, table: str, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Training rows, their labels, test rows, their labels, fold by fold."""
        X, y = read_table(table)
        chosen = np.random.default_rng(seed).permutation(len(X))[:ROWS]
        X, y = X[chosen], y[chosen]
        for train, test in StratifiedKFold(self.folds, shuffle=True, random_state=seed).split(X, y):
            yield X[train], y[train], X[test], y[test]


@cache
def tables_fingerprint() -> str:
    """What a short training gives, which changes where the estimator does."""
    X, _ = read_table("wine")
    estimator = KernelVICReg(4, epochs=2, random_state=0).fit(X.astype(np.float64))
    return as_text(*estimator.loss_curve_, float(np.abs(estimator.transform(X)).mean()))


@cache
def read_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The columns as numbers, float32 (n, p), a column for each value of those that are none; and the classes (n,)."""
    source = TABLES[name]
    if isinstance(source, str):
        data = getattr(datasets, source)()
        return data.data.astype(np.float32), data.target
    number, target = source
    (path,) = (OPENML / f"id_{number}").glob("data-v1-dl-*.arff.gz")
    records, about = arff.loadarff(io.StringIO(gzip.decompress(path.read_bytes()).decode()))
    columns = []
    for column in (column for column in about.names() if column != target):
        values = records[column]
        if values.dtype.kind == "f":
            columns.append(np.where(np.isnan(values), np.nanmean(values), values))
        else:
            columns += [values == value for value in np.unique(values)[1:]]
    return np.stack(columns, axis=1).astype(np.float32), np.unique(records[target], return_inverse=True)[1]


def measured(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, *, seed: int) -> Iterator[Row]:
    """A row for every method and number of labels."""
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    width = min(WIDTH, X.shape[1] // 2)
    labelled = {name: first_of_each(y, share, seed) for name, share in LABELS.items()}
    for method in METHODS:
        features = [
            (settings, maker.fit(X).transform(X), maker.transform(X_test))
            for settings, maker in candidates(method, width, seed)
        ]
        for labels, rows in labelled.items():
            searches = [fitted(Z[rows], y[rows], seed) for _, Z, _ in features]
            best = int(np.argmax([search.best_score_ for search in searches]))
            settings, _, Z_test = features[best]
            accuracy = searches[best].score(Z_test, y_test)
            chosen = {**settings, "C": searches[best].best_params_["logisticregression__C"]}
            yield {"method": method, "labels": labels, "width": Z_test.shape[1], "accuracy": accuracy, "chosen": chosen}


def candidates(method: str, width: int, seed: int) -> list[tuple[dict[str, Any], Any]]:
    """The transformers among which the training rows choose, with what they differ in."""
    network: dict[str, Any] = {"n_components": width, "random_state": seed}
    if method == "all columns":
        return [({}, StandardScaler())]
    if method == "PCA":
        return [({}, PCA(width))]
    if method == "kernel PCA":
        return [({"gamma": gamma}, KernelPCA(width, kernel="rbf", gamma=gamma)) for gamma in (0.003, 0.01, 0.03, 0.1)]
    if method == "untrained network":
        return [({}, KernelVICReg(epochs=1, learning_rate=1e-12, **network))]
    views: list[dict[str, Any]] = [{"strength": 0.15}, {"strength": 0.4}, {"views": "noise"}]
    return [(settings, KernelVICReg(**settings, **network)) for settings in views]


def fitted(Z: np.ndarray, y: np.ndarray, seed: int) -> GridSearchCV:
    """A linear classifier of features, its C chosen by cross-validation."""
    folds = StratifiedKFold(max(2, min(3, np.bincount(y).min())), shuffle=True, random_state=seed)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GridSearchCV(model, {"logisticregression__C": [0.01, 0.1, 1.0]}, cv=folds).fit(Z, y)


def first_of_each(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Which rows have labels: of each class this share, at least two."""
    order = np.random.default_rng(seed).permutation(len(y))
    parts = [order[y[order] == label] for label in np.unique(y)]
    return np.concatenate([part[: max(2, round(share * len(part)))] for part in parts])


def as_markdown(rows: list[Row]) -> str:
    """Mean accuracy in percent of each table and method, and its standard deviation over the splits so far."""
    tables = list(dict.fromkeys(row["table"] for row in rows))
    parts = []
    for labels in LABELS:
        lines = []
        above = dict.fromkeys(METHODS[:-1], 0)
        for table in tables:
            here = [row for row in rows if (row["table"], row["labels"]) == (table, labels)]
            scores = {m: 100 * np.array([row["accuracy"] for row in here if row["method"] == m]) for m in METHODS}
            cells = [f"{values.mean():.1f} ± {values.std():.1f}" for values in scores.values()]
            lines.append([table, len(scores["PCA"]), here[-1]["width"], *cells])
            above = {m: n + int(scores[METHODS[-1]].mean() > scores[m].mean()) for m, n in above.items()}
        counts = ", ".join(f"{method} on {number}" for method, number in above.items())
        share = f"With {labels} of the labels, {len(tables)} of {len(TABLES)} tables measured"
        title = f"{share}: {METHODS[-1]} is above {counts}."
        parts.append(f"{title}\n\n{markdown(['table', 'splits', 'width', *METHODS], lines)}\n")
    return "\n".join(parts)
