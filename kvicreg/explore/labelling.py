"""Labels that are saved at every click, and a probe that learns from them and says what to ask next."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kvicreg.explore.collection import Collection
from kvicreg.explore.lists import image_column, table_text
from kvicreg.storage import write_atomically

__all__ = ["LabelFile", "Learner", "Opinion"]


class LabelFile:
    """Labels of images in a CSV file that is whole at every moment; `train` and `evaluate` read it as it is.

    Rows for images that the collection does not have stay in the file.

    Args:
        images: the collection.
        path: the file; what is in it is read.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> LabelFile(images, "labels.csv").set([3, 4], "four")
        >>> LabelFile(images, "labels.csv").labels
        {3: 'four', 4: 'four'}
    """

    def __init__(self, images: Collection, path: str | Path) -> None:
        self.images, self.path = images, Path(path)
        self.labels: dict[int, str] = {}
        self.version = 0
        self._column, self._name_of = image_column(images.data, self.path)
        self._others: list[tuple[str, str]] = []
        if self.path.is_file():
            self._read()

    def _read(self) -> None:
        with open(self.path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if not {self._column, "label"} <= {*(reader.fieldnames or ())}:
                raise ValueError(f"{self.path}: expected the columns {self._column} and label; name another file")
            rows = [(row[self._column], row["label"] or "") for row in reader]
        numbers = {self._name_of(index): index for index in range(len(self.images))}
        for name, label in rows:
            if name in numbers and label:
                self.labels[numbers[name]] = label
            elif label:
                self._others.append((name, label))

    def set(self, indices: Iterable[int], label: str | None) -> None:
        """Give images a label, or none, and save; the file is written when this returns."""
        label = None if label is None else " ".join(label.split())
        if label is not None and not 1 <= len(label) <= 200:
            raise ValueError("label must be a text of 1 to 200 characters")
        for index in indices:
            if not 0 <= index < len(self.images):
                raise ValueError(f"image must be a number from 0 to {len(self.images) - 1}, got {index}")
            if label is None:
                self.labels.pop(index, None)
            else:
                self.labels[index] = label
        self.version += 1
        rows = [(self._name_of(index), name) for index, name in sorted(self.labels.items())]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, table_text([self._column, "label"], [*rows, *self._others]).encode())

    def export_arrays(self, file: IO[bytes]) -> None:
        """Write labelled images that are no files as an .npz file that `train` and `evaluate` read."""
        rows = sorted(self.labels)
        if not rows:
            raise ValueError("labels: there is none yet")
        images = self.images.shown.fetch(torch.tensor(rows)).numpy()
        np.savez_compressed(file, images=images, labels=np.array([self.labels[row] for row in rows]))


class Opinion(NamedTuple):
    """What the probe thinks of every image.

    Attributes:
        classes: names.
        prediction: number of the most probable class, (n,).
        confidence: its probability, (n,).
        margin: by how much it leads the second, (n,): the least sure images are asked about.
    """

    classes: list[str]
    prediction: Tensor
    confidence: Tensor
    margin: Tensor


class Learner:
    """A linear probe on a few labels, and the images that it would have labelled next.

    While there are few labels, typical images of parts of the collection that have none are asked for: the most
    central image of each cluster, the largest first. Later it is the images that the probe is least sure of.

    Args:
        images: the collection.
        clusters: how many typical images there are.
        regularization: inverse strength of the probe's penalty.
        seed: of the clusters.

    Example:
        >>> images = open_images("pixels", load("mnist-small").subset(range(100)), cache="cache")
        >>> learner = Learner(images, clusters=5)
        >>> len(learner.ask({}, count=3)), learner.learn({3: "a", 7: "b"}).prediction.shape
        (3, torch.Size([100]))
    """

    def __init__(self, images: Collection, *, clusters: int = 30, regularization: float = 10.0, seed: int = 0) -> None:
        self.images, self.regularization = images, regularization
        self.rows = images.readable.nonzero()[:, 0]
        self.typical, self.cluster = _typical(images.unit[self.rows], min(clusters, len(self.rows)), seed)

    def learn(self, labels: Mapping[int, str]) -> Opinion | None:
        """What a probe thinks that is fitted to the labels; None while they are all the same."""
        from sklearn.linear_model import LogisticRegression

        classes = sorted(set(labels.values()))
        if len(classes) < 2:
            return None
        labelled = torch.tensor(sorted(labels))
        targets = [classes.index(labels[int(row)]) for row in labelled]
        probe = LogisticRegression(C=self.regularization, max_iter=200)
        probe.fit(self.images.unit[labelled].numpy(), targets)
        weights = torch.from_numpy(np.atleast_2d(probe.coef_)).float()
        logits = self.images.unit @ weights.T + torch.from_numpy(np.atleast_1d(probe.intercept_)).float()
        if len(classes) == 2:
            logits = torch.cat((-logits, logits), 1) / 2
        best = logits.softmax(1).topk(2, dim=1)
        return Opinion(classes, best.indices[:, 0], best.values[:, 0], best.values[:, 0] - best.values[:, 1])

    def ask(self, labels: Mapping[int, str], opinion: Opinion | None = None, count: int = 1) -> list[int]:
        """Which images to label next, the most useful first."""
        covered = {int(self.cluster[place]) for place in self._places(labels)}
        fresh = [int(self.rows[place]) for number, place in enumerate(self.typical.tolist()) if number not in covered]
        if len(fresh) >= count or opinion is None:
            return (fresh or [int(row) for row in self.rows if int(row) not in labels])[:count]
        margin = opinion.margin[self.rows].clone()
        margin[self._places(labels)] = torch.inf
        unsure = self.rows[margin.argsort()[: count - len(fresh)]].tolist()
        return [*fresh, *unsure][: min(count, len(self.rows) - len(labels))]

    def _places(self, labels: Mapping[int, str]) -> list[int]:
        """Where labelled images are among those that can be read."""
        rows = torch.tensor(sorted(labels), dtype=torch.long)
        return torch.isin(self.rows, rows).nonzero()[:, 0].tolist()


def _typical(unit: Tensor, clusters: int, seed: int) -> tuple[Tensor, Tensor]:
    """The row nearest to the centre of each cluster, largest cluster first, and the cluster of every row."""
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(clusters, random_state=seed, n_init=3, batch_size=4096).fit(unit.numpy())
    centres, labels = torch.from_numpy(model.cluster_centers_).float(), torch.from_numpy(model.labels_).long()
    sizes = torch.bincount(labels, minlength=clusters)
    order = sizes.argsort(descending=True, stable=True)
    distance = torch.cdist(unit, centres)
    typical = torch.where(labels[:, None] == torch.arange(clusters), distance, torch.inf).argmin(0)
    rank = torch.empty_like(order).index_put_((order,), torch.arange(clusters))
    filled = sizes[order] > 0
    return typical[order][filled], rank[labels]
