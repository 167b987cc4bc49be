"""The encoders that are measured side by side: the run's, with and without its projector, and the controls."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from kvicreg.evaluation.controls import RawPixels, random_encoder
from kvicreg.evaluation.session import Session
from kvicreg.evaluation.supervised import train_with_labels

__all__ = ["Subject", "other_subjects", "trained_subject"]


class Subject(NamedTuple):
    """An encoder with its features of the train images (n, q) and of the test images (m, q)."""

    encoder: nn.Module
    train_x: Tensor
    test_x: Tensor


def trained_subject(session: Session, *, projector: bool = False) -> Subject:
    """The run's encoder, or the embeddings that its loss saw."""
    run = session.run
    encoder = run.encoder(projector=True, device=session.device) if projector else session.encoder
    name = "projector" if projector else "encoder"
    return Subject(encoder, *session.features(name, encoder, run.encoder_hash))


def other_subjects(session: Session) -> dict[str, Subject]:
    """What the encoder is compared with, by name."""
    run, options = session.run, session.options
    pixels = RawPixels(session.data.test.shape)
    subjects = {"raw pixels": Subject(pixels, *session.features("raw pixels", pixels))}
    architecture = run.description["architecture"]
    if architecture["name"] != "custom":
        untrained = random_encoder(session.encoder, seed=options.seed)
        key = (architecture, run.description["mean"], options.seed)
        subjects["random encoder"] = Subject(untrained, *session.features("random encoder", untrained, *key))
    if options.projector:
        subjects["projector"] = trained_subject(session, projector=True)
    if options.supervised:
        subjects["supervised"] = _supervised(session)
    return subjects


def _supervised(session: Session) -> Subject:
    """The same architecture trained with labels from scratch, for as many epochs as the run."""
    run, seed = session.run, session.options.seed
    epochs = run.settings.schedule.epochs
    with session.timed("supervised control"):
        untrained = random_encoder(session.encoder, seed=seed)
        encoder, _ = train_with_labels(untrained, session.data.train, session.views, epochs=epochs, seed=seed)
    return Subject(encoder, *session.features("supervised", encoder, epochs, run.encoder_hash, seed))
