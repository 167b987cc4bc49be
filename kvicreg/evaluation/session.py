"""One evaluation under way: the run, its data, and what the parts of the evaluation share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor, nn

from kvicreg.data import ImageData
from kvicreg.evaluation.data import evaluation_data, given_data, training_views
from kvicreg.evaluation.intervals import bootstrap_interval
from kvicreg.evaluation.options import Options
from kvicreg.evaluation.results import measure
from kvicreg.measures.features import FeatureCache, choose_device, extract, fingerprint
from kvicreg.runs import RunFolder

__all__ = ["Say", "Session"]

Say = Callable[[str], None]


class Session:
    """The run that is evaluated, its data and views, features that are computed once, and scores of each test image.

    Args:
        run: the run.
        options: what to evaluate.
        say: is given a line for each part that begins.
        data, test: images of a run that was given its own from Python.
    """

    def __init__(
        self,
        run: RunFolder,
        options: Options,
        say: Say,
        data: ImageData | None = None,
        test: ImageData | None = None,
    ) -> None:
        say(f"evaluating {run.name} on {options.on or run.settings.data.source}")
        self.run, self.options, self.say = run, options, say
        self.device = choose_device(options.device)
        self.encoder = run.encoder(device=self.device)
        if data is None:
            self.data = evaluation_data(run, options.on, root=options.data_root, seed=options.seed)
        else:
            self.data = given_data(run, data, test, seed=options.seed)
        self.views = training_views(run)
        self.fingerprints = (fingerprint(self.data.train), fingerprint(self.data.test))
        self.cache = FeatureCache(run.features)
        self.seconds: dict[str, float] = {}
        self.scores: dict[str, dict[str, Tensor]] = {}  # subject -> measure -> (m,), one for each test image

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Say that a part begins, and add up how long it takes."""
        self.say(f"{part} ...")
        start = time.perf_counter()
        yield
        self.seconds[part] = round(self.seconds.get(part, 0.0) + time.perf_counter() - start, 2)

    def extract(self, encoder: nn.Module, data: ImageData, **more: Any) -> Tensor:
        """Features (n, q) of images."""
        return extract(encoder, data, batch_size=self.options.batch_size, workers=self.options.workers, **more)

    def features(self, name: str, encoder: nn.Module, *key: Any) -> tuple[Tensor, Tensor]:
        """Features of train and test images, from the cache when `key` (what the weights depend on) is there."""
        train, test = self.fingerprints
        with self.timed(f"features: {name}"):
            return (
                self.cache.get(partial(self.extract, encoder, self.data.train), name, train, *key),
                self.cache.get(partial(self.extract, encoder, self.data.test), name, test, *key),
            )

    def record(self, subject: str, key: str, scores: Tensor, **settings: Any) -> dict[str, Any]:
        """Note the score of each test image (m,) by a measure; returns their mean as an entry of the results."""
        self.scores.setdefault(subject, {})[key] = scores
        return measure(bootstrap_interval(scores, seed=self.options.seed), key, **settings)
