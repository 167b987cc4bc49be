"""What is measured of exploring is counted right, at a size of seconds."""

import json

import torch
from photographs import write_photos

from experiments import explore
from experiments.explore_page import measured_part
from kvicreg.data import ArrayData
from kvicreg.explore import Learner, open_images


def test_precision_and_recall_are_counted_over_pairs_with_ties_together():
    pairs = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])
    truth = {(0, 1): "cropped", (4, 5): "resized", (8, 9): "mirrored", (10, 11): "re-encoded"}
    row = explore.judged("all", pairs, torch.tensor([0.9, 0.8, 0.8, 0.1]), truth, tuned=False)
    assert (row["precision"], row["recall"]) == (0.5, 0.5)
    best = explore.judged("best", pairs, torch.tensor([0.9, 0.8, 0.8, 0.1]), truth)
    assert (best["precision"], best["recall"], best["threshold"]) == (0.6667, 0.5, 0.8)
    assert (best["by_kind"]["cropped"], best["by_kind"]["mirrored"]) == (1.0, 0.0)


def test_planted_duplicates_are_four_kinds_of_their_originals(tmp_path):
    photos = write_photos(tmp_path / "photos")
    truth = explore.plant(photos, tmp_path / "planted", images=20, planted=8, seed=0)
    assert [kind for _, kind in truth.values()] == [*explore.KINDS] * 2
    assert len(list((tmp_path / "planted").iterdir())) == 28
    collection = open_images("pixels", tmp_path / "planted", cache=tmp_path / "cache")
    copy, (original, _) = next(iter(truth.items()))
    assert collection.search(str(tmp_path / "planted" / copy), count=2)[1].name in (copy, original)
    hashed, bits = explore.hash_pairs(collection, "phash", mirrored=True)
    assert (bits.diff() <= 0).all()
    assert len(hashed) > 0


def test_chosen_clicks_are_simulated_with_true_labels(tmp_path):
    labels = torch.arange(60) % 2
    images = torch.randint(0, 60, (60, 3, 16, 16), dtype=torch.uint8)
    images[labels == 1, 0] += 150
    collection = open_images("pixels", ArrayData(images, labels), cache=tmp_path / "cache")
    for choice in ("chosen", "random"):
        curve = dict(explore.clicked(Learner(collection, clusters=4), labels, choice, 20, seed=0))
        assert list(curve) == [10, 20]
        assert curve[20] > 0.9


def test_a_page_says_what_was_not_run(tmp_path):
    assert measured_part(tmp_path).count("Not run yet.") == 6
    (tmp_path / "explore").mkdir()
    rows = [{"threshold": 0.75, "images": 12, "listed": 3}]
    (tmp_path / "explore" / "bench-leaks.json").write_text(json.dumps({"listed": 5, "rows": rows}))
    assert "| 0.75 | 12 | 3 of 5 |" in measured_part(tmp_path)
