"""What the page shows of a collection: computed in the background, part by part, while people already look."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from kvicreg.explore.collection import Collection, Match
from kvicreg.explore.columns import Column, categories, numeric, source_columns, table_columns
from kvicreg.explore.duplicates import duplicate_pairs, group_pairs
from kvicreg.explore.index import exact_search
from kvicreg.explore.kernel import KernelView
from kvicreg.explore.labelling import LabelFile, Learner, Opinion
from kvicreg.explore.layout import principal_layout, start_umap, stored_umap
from kvicreg.explore.problems import Problem, file_problems
from kvicreg.explore.scores import outlier_scores
from kvicreg.kernels.base import Kernel
from kvicreg.models.projector import Projector

__all__ = ["Session"]

FLOOR = 0.4
"""The lowest threshold to which duplicates can be dragged."""
PARTS = ("clusters", "neighbours", "outliers", "kernel", "files", "mirrored", "umap")


class Session:
    """A collection with its labels and all that is computed of it.

    Args:
        images: the collection.
        labels: CSV file of labels.
        table: CSV file with columns to colour by, or None.
        kernel: of the view into the kernel.
        projector: that of the run, if there is one.
    """

    def __init__(
        self,
        images: Collection,
        labels: Path,
        *,
        table: Path | None = None,
        kernel: str | Kernel = "rbf",
        projector: Projector | None = None,
    ) -> None:
        self.images, self.labels = images, LabelFile(images, labels)
        self.kernel, self.projector = kernel, projector
        self.points, self.layout = principal_layout(images), "principal components"
        self.status: dict[str, Any] = dict.fromkeys(PARTS, "waiting")
        self.columns: dict[str, Column] = source_columns(images)
        if table is not None:
            self.columns |= table_columns(images, table)
        self.lock = threading.Lock()
        self.problems: list[Problem] = []
        self.pairs: tuple[Tensor, Tensor] | None = None
        self.learner: Learner | None = None
        self.view: KernelView | None = None
        self._opinion: tuple[int, Opinion | None] = (-1, None)
        self._umap: Any = None
        self.closed = threading.Event()
        images.progress = self._progress

    # -- the background ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to compute, part after part."""
        threading.Thread(target=self._run, daemon=True, name="explore").start()

    def close(self) -> None:
        """Stop what is under way."""
        self.closed.set()
        if self._umap is not None and self._umap.poll() is None:
            self._umap.terminate()

    def _run(self) -> None:
        for part in PARTS:
            if self.closed.is_set():
                return
            self.status[part] = "running"
            try:
                getattr(self, f"_make_{part}")()
                self.status[part] = "ready"
            except Exception as error:  # the rest of the page works without this part
                logging.getLogger("kvicreg").exception("explore: %s", part)
                self.status[part] = f"failed: {error}"

    def _progress(self, what: str, done: int, total: int) -> None:
        part = what if what in PARTS else {"index": "neighbours", "mirrored embedding": "mirrored"}.get(what)
        if part is not None:
            self.status[part] = [done, total]
        if self.closed.is_set():
            raise InterruptedError("the page was closed")

    def _make_clusters(self) -> None:
        self.learner = Learner(self.images)
        numbers = np.full(len(self.images), np.nan, dtype=np.float32)
        numbers[self.learner.rows] = self.learner.cluster.numpy()
        names = [f"cluster {number + 1}" for number in range(len(self.learner.typical))]
        self.columns["cluster"] = Column("cluster", lambda: numbers, lambda: names)

    def _make_neighbours(self) -> None:
        self.pairs = duplicate_pairs(self.images, FLOOR, mirrored=False)
        if stored_umap(self.images.folder) is None and not self.closed.is_set():
            self._umap = start_umap(self.images)  # beside the parts that follow

    def _make_outliers(self) -> None:
        self.scores = outlier_scores(self.images)
        self.columns["outlier"] = Column("outlier score", lambda: self.scores.numpy())

    def _make_kernel(self) -> None:
        view = KernelView(self.images, self.kernel, projector=self.projector)
        for number in range(min(4, view.components.shape[1])):
            values = view.components[:, number].numpy()
            self.columns[f"component{number}"] = numeric(f"kernel component {number + 1}", values)
        self.view = view

    def _make_files(self) -> None:
        self.problems = file_problems(self.images.shown, progress=self._progress)
        kinds: list[str | None] = [None] * len(self.images)
        for problem in self.problems:
            kinds[problem.index] = problem.kind
        if self.problems:
            self.columns["problem"] = categories("file problem", kinds)

    def _make_mirrored(self) -> None:
        self.pairs = duplicate_pairs(self.images, FLOOR)

    def _make_umap(self) -> None:
        while self._umap is not None and self._umap.poll() is None and not self.closed.is_set():
            time.sleep(0.2)
        if (points := stored_umap(self.images.folder)) is None:
            raise RuntimeError("umap-learn has stopped; its message is above")
        self.points, self.layout = points, "UMAP"

    # -- what is asked for ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What the page polls: how far everything is, and the labels' version."""
        counts = Counter(list(self.labels.labels.values()))
        return {
            "name": self.images.data.name,
            "count": len(self.images),
            "layout": self.layout,
            "parts": self.status,
            "columns": [column.describe(key) for key, column in list(self.all_columns().items())],
            "version": self.labels.version,
            "labels": dict(sorted(counts.items())),
            "label_file": self.labels.path.name,
            "floor": FLOOR,
        }

    def all_columns(self) -> dict[str, Column]:
        """Every column, those of labels and of the probe's opinion too."""
        columns = dict(self.columns)
        given = self.labels.labels
        if given:
            columns["label"] = categories("label", [given.get(index) for index in range(len(self.images))])
        opinion = self.opinion()
        if opinion is not None:
            prediction = opinion.prediction.float().numpy()
            columns["prediction"] = Column("prediction", lambda: prediction, lambda: opinion.classes)
            columns["confidence"] = numeric("confidence", opinion.confidence.numpy())
        return columns

    def set_label(self, indices: list[int], label: str | None) -> None:
        with self.lock:
            self.labels.set(indices, label)

    def opinion(self) -> Opinion | None:
        """What the probe thinks with the labels as they are."""
        with self.lock:
            version = self.labels.version
            if self._opinion[0] != version and self.learner is not None:
                self._opinion = (version, self.learner.learn(self.labels.labels))
            return self._opinion[1]

    def questions(self, count: int) -> list[int]:
        """The images to label next."""
        opinion = self.opinion()
        return [] if self.learner is None else self.learner.ask(self.labels.labels, opinion, count)

    def search(self, direction: Tensor, leave_out: set[int], count: int) -> list[Match]:
        """The nearest images to a direction; exactly, until the index is ready."""
        ready = "index" in self.images.__dict__
        search = self.images.index.search if ready else partial(exact_search, self.images.unit)
        nearest = search(direction[None], min(count + len(leave_out), len(self.images)))
        return self.images.matches(*nearest, leave_out)[:count]

    def groups(self, threshold: float) -> list[list[int]]:
        """Groups of duplicates."""
        if self.pairs is None:
            return []
        pairs, cosines = self.pairs
        return group_pairs(pairs[: int((cosines >= threshold).sum())], len(self.images))
