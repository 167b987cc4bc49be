"""The training benchmark runs its three loops in turn and writes what it found."""

from __future__ import annotations

import json

from kvicreg.benchmarks import train


def test_every_loop_is_timed_in_every_round(tmp_path, monkeypatch, capsys):
    small = {"encoder": "small-cnn", "width": 0.25, "channels": 1, "image_size": 16, "views": "digits"}
    monkeypatch.setattr(train, "CASES", {"tiny": small})
    rows = train.run(tmp_path / "bench.json", batch_size=16, steps=3)
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["rows"] == rows
    assert written["steps"] == 3
    assert rows[0]["kvicreg_ms"] > 0
    assert rows[0]["ratio_quartiles"][0] <= rows[0]["ratio"] <= rows[0]["ratio_quartiles"][1]
