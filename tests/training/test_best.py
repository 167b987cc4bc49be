"""The best checkpoint: by the probe where there are labels, else by the criterion that has predicted probes best."""

from __future__ import annotations

import csv

import pytest
import torch

from kvicreg.data import ArrayData
from kvicreg.measures.alignment import centred_alignment
from kvicreg.runs import RunFolder, load_encoder
from kvicreg.selection.advice import read_evidence
from kvicreg.training import train
from kvicreg.training.build import build_views
from kvicreg.training.monitor import FixedImages


def test_without_labels_it_is_the_epoch_whose_views_agree_most(tiny_config, tiny_data, monkeypatch):
    values = iter([0.2, 0.9, 0.5])
    monkeypatch.setattr(FixedImages, "agreement", lambda self, method, device: next(values))
    unlabelled = ArrayData(tiny_data.images, name="squares")
    folder = train(tiny_config.replace(epochs=3), data=unlabelled, quiet=True)
    best = torch.load(RunFolder(folder).checkpoint("best"), weights_only=True)
    assert best["batches_done"] == 6


def test_that_is_what_the_selection_study_recommends():
    assert read_evidence()["criterion"] == "cka", "FixedImages.agreement and Record.score are to follow it"


def test_the_record_has_the_agreement_of_two_views(tiny_config, tiny_data):
    folder = train(tiny_config.replace(epochs=1), data=tiny_data, quiet=True)
    (row,) = csv.DictReader((folder / "metrics.csv").open())
    views = build_views(tiny_config, tiny_data)
    fixed = FixedImages(tiny_data, views, count=32, probe_count=0, seed=0)
    encoder = load_encoder(folder)
    one, two = (views(fixed.images, fixed.samples, seed=0, epoch=0, view=v) for v in (0, 1))
    with torch.no_grad():
        assert float(row["cka"]) == pytest.approx(centred_alignment(encoder(one), encoder(two)), rel=1e-4)
