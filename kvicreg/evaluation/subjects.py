"""The encoders that are measured side by side: the run's, with and without its projector, and the controls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from kvicreg.evaluation.controls import RawPixels, random_encoder
from kvicreg.evaluation.session import Session
from kvicreg.evaluation.supervised import train_with_labels

__all__ = ["Features", "Subject", "features_of", "subjects_of"]


@dataclass(frozen=True)
class Subject:
    """An encoder that is measured.

    Attributes:
        name: what tables call it.
        make: gives the encoder.
        key: what its features depend on beside the images.
        is_shared: whether other runs on the same images have the same one.
        has_curves: whether its robustness is measured.
        is_tuned: whether it is fine-tuned, where that is asked for.
        is_stored: whether its features are worth a file.
    """

    name: str
    make: Callable[[], nn.Module]
    key: tuple[Any, ...]
    is_shared: bool = False
    has_curves: bool = False
    is_tuned: bool = False
    is_stored: bool = True


class Features(NamedTuple):
    """An encoder with its features of the train images (n, q) and of the test images (m, q)."""

    encoder: nn.Module
    train_x: Tensor
    test_x: Tensor


def subjects_of(session: Session) -> list[Subject]:
    """The run's encoder, and then what it is compared with."""
    run, options = session.run, session.options
    shape, architecture = session.data.test.shape, run.description["architecture"]
    subjects = [
        Subject("encoder", lambda: session.encoder, (run.encoder_hash,), has_curves=True, is_tuned=True),
        Subject("raw pixels", lambda: RawPixels(shape), (), is_shared=True, has_curves=True, is_stored=False),
    ]
    if architecture["name"] != "custom":
        whole = {"is_shared": True, "has_curves": True, "is_tuned": True}
        key = (architecture, run.description["mean"], run.description["std"])
        untrained = partial(random_encoder, session.encoder, seed=options.seed)
        subjects.append(Subject("random encoder", untrained, (*key, options.seed), **whole))
        if run.start_hash is not None:
            start = partial(run.starting_encoder, device=session.device)
            subjects.append(Subject("starting encoder", start, (*key, run.start_hash), **whole))
    if options.projector:
        embeddings = partial(run.encoder, projector=True, device=session.device)
        subjects.append(Subject("projector", embeddings, (run.encoder_hash,)))
    if options.supervised:
        length = run.settings.schedule.total_epochs
        subjects.append(Subject("supervised", partial(_supervised, session), (length, run.encoder_hash, options.seed)))
    return subjects


def features_of(session: Session, subject: Subject) -> Features:
    """A subject's encoder with its features of all images."""
    encoder = subject.make()
    return Features(encoder, *session.features(subject.name, encoder, *subject.key, is_stored=subject.is_stored))


def _supervised(session: Session) -> nn.Module:
    """The same architecture trained with labels from scratch, for as many epochs as the run."""
    run, seed = session.run, session.options.seed
    epochs, images = run.settings.schedule.total_epochs, len(session.data.train)
    with session.timed("supervised control"):
        encoder, _ = train_with_labels(
            random_encoder(session.encoder, seed=seed),
            session.data.train,
            session.views,
            epochs=epochs,
            seed=seed,
            progress=lambda *_: session.progress.advance("supervised control", images),
        )
    return encoder
