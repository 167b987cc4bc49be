"""The parts that an evaluation will have, with the work in each, for the time that is left."""

from __future__ import annotations

from kvicreg.evaluation.controls import RawPixels
from kvicreg.evaluation.labelled import shared_key, shifted_rows
from kvicreg.evaluation.progress import Part
from kvicreg.evaluation.robustness import PASSES
from kvicreg.evaluation.session import Session
from kvicreg.evaluation.subjects import Subject, subjects_of
from kvicreg.evaluation.supervised import FINE_TUNING_EPOCHS

__all__ = ["parts_of"]


def parts_of(session: Session) -> dict[str, Part]:
    """The parts by name, in no order; controls that were measured with an earlier run are not among them."""
    data, options = session.data, session.options
    train, test = len(data.train), len(data.test)
    parts = {"features: encoder": Part("images", train + test)}
    if options.map_images:
        parts["map"] = Part("map", 1)
    if not data.labelled:
        return parts
    for subject in subjects_of(session):
        if not subject.is_shared or shared_key(session, subject) not in session.shared:
            parts |= _parts(session, subject)
    if options.supervised:
        parts["supervised control"] = Part("training", session.run.settings.schedule.total_epochs * train)
    return parts


def _parts(session: Session, subject: Subject) -> dict[str, Part]:
    """Features, probes and curves of a subject."""
    train, test = len(session.data.train), len(session.data.test)
    is_raw = subject.name == "raw pixels"
    width = RawPixels(session.data.test.shape).feature_dim if is_raw else session.encoder.feature_dim
    kind, name, is_shared = "pixels" if is_raw else "images", subject.name, subject.is_shared
    parts = {
        f"features: {name}": Part(kind, train + test, is_shared),
        f"probes: {name}": Part("numbers", train * width, is_shared),
    }
    if subject.is_tuned and session.options.fine_tune:
        parts[f"fine-tuning: {name}"] = Part("training", FINE_TUNING_EPOCHS * train, is_shared)
    if subject.has_curves:
        parts[f"robustness: {name}"] = Part(kind, PASSES * len(shifted_rows(session)), is_shared)
    return parts
