"""One evaluation under way: the run, its data, and what the parts of the evaluation share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from torch import Tensor, nn

from kvicreg.data import ImageData
from kvicreg.evaluation.data import EvaluationData, evaluation_data, given_data, training_views
from kvicreg.evaluation.options import EvaluationOptions
from kvicreg.evaluation.progress import Progress
from kvicreg.measures.features import FeatureCache, choose_device, extract, fingerprint
from kvicreg.runs import RunFolder

__all__ = ["Session", "Shared"]

T = TypeVar("T")


class Shared:
    """What evaluations one after the other have in common: images that were opened, and controls that were measured."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The value of a key, computed when it is first needed."""
        if key not in self._values:
            self._values[key] = compute()
        value: T = self._values[key]
        return value

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values


class Session:
    """The run that is evaluated, its data and views, features that are computed once, and scores of each test image.

    Args:
        run: the run.
        options: what to evaluate.
        progress: is told each part that begins.
        shared: what earlier evaluations have left.
        data, test: images of a run that was given its own from Python.
    """

    def __init__(
        self,
        run: RunFolder,
        options: EvaluationOptions,
        progress: Progress | None = None,
        shared: Shared | None = None,
        data: ImageData | None = None,
        test: ImageData | None = None,
    ) -> None:
        self.run, self.options = run, options
        self.progress, self.shared = progress or Progress(), shared or Shared()
        self.device = choose_device(options.device)
        self.encoder = run.encoder(device=self.device)
        self.data, self.fingerprints = self._data(data, test)
        self.views = training_views(run)
        self.cache = FeatureCache(run.features)
        self.scores: dict[str, dict[str, Tensor]] = {}  # subject -> measure -> (m,), one for each test image

    def _data(self, data: ImageData | None, test: ImageData | None) -> tuple[EvaluationData, tuple[str, str]]:
        """The images, and their fingerprints."""
        run, options = self.run, self.options
        if data is not None:
            images = given_data(run, data, test, seed=options.seed)
            return images, (fingerprint(images.train), fingerprint(images.test))

        def opened() -> tuple[EvaluationData, tuple[str, str]]:
            reading = options.reading.given()
            images = evaluation_data(run, options.on, root=options.data_root, seed=options.seed, reading=reading)
            return images, (fingerprint(images.train), fingerprint(images.test))

        description = run.description
        read_as = (description.get("intensity"), description.get("fit"))
        opened_by = (options.on, options.data_root, options.reading, options.seed)
        key = (*opened_by, run.settings.data, description["image_size"], len(description["mean"]), read_as)
        return self.shared.once(key, opened)

    def timed(self, part: str, title: str | None = None) -> AbstractContextManager[None]:
        """A part, while it is under way: it is told when it begins, and its seconds are added up."""
        return self.progress.part(part, title)

    def extract(self, part: str, encoder: nn.Module, data: ImageData, **more: Any) -> Tensor:
        """Features (n, q) of images, as (a piece of) a part."""
        size, done = self.options.batch_size, [0]

        def tell(images: int, _: int) -> None:
            self.progress.advance(part, images - done[0])
            done[0] = images

        return extract(encoder, data, batch_size=size, workers=self.options.workers, progress=tell, **more)

    def features(self, name: str, encoder: nn.Module, *key: Any, is_stored: bool = True) -> tuple[Tensor, Tensor]:
        """Features of train and test images, from the cache when `key` (what the weights depend on) is there."""
        part = f"features: {name}"

        def features_of(data: ImageData, print: str) -> Tensor:
            compute = partial(self.extract, part, encoder, data)
            return self.cache.get(compute, name, print, *key) if is_stored else compute()

        with self.timed(part):
            train, test = self.fingerprints
            return features_of(self.data.train, train), features_of(self.data.test, test)
