"""The training benchmark runs its three loops in turn and writes what it found."""

from __future__ import annotations

import json

from kvicreg.benchmarks import data, jpeg, train


def test_every_loop_is_timed_in_every_round(tmp_path, monkeypatch, capsys):
    small = {"encoder": "small-cnn", "width": 0.25, "channels": 1, "image_size": 16, "views": "digits"}
    monkeypatch.setattr(train, "CASES", {"tiny": small})
    monkeypatch.setattr(jpeg, "SIZE", 16)
    rows = train.run(tmp_path / "bench.json", batch_size=16, steps=3, threads=1)
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["rows"] == rows
    assert written["steps"] == 3
    assert rows[0]["kvicreg_ms"] > 0
    assert 0 < rows[0]["loss_share"] < 1
    assert rows[0]["ratio_quartiles"][0] <= rows[0]["ratio"] <= rows[0]["ratio_quartiles"][1]
    assert written["files"]["first_epoch_images_per_second"] > 0


def test_without_a_peer_there_is_a_table_all_the_same(tmp_path, monkeypatch, capsys):
    row = {"case": "x", "kvicreg_ms": 1.0, "network_ms": 1.0, "ratio": 1.0, "images_per_second": 1000}
    row |= {"loss_ms": 0.1, "loss_share": 0.1}
    files = {"case": "files", "first_epoch_images_per_second": 10, "images_per_second": 20}
    monkeypatch.setattr(train, "CASES", {"x": {}})
    monkeypatch.setattr(train, "measure", lambda *_: row | {"peer_images_per_second": None})
    monkeypatch.setattr(jpeg, "measure", lambda *_: files | {"peer_images_per_second": None})
    train.run(tmp_path / "bench.json", batch_size=16, steps=3, threads=1)
    assert capsys.readouterr().out.count("not installed") == 2


def test_reading_shards_and_a_folder_is_measured(tmp_path, capsys):
    result = data.run(tmp_path / "bench.json", images=96, folder_images=64, batch_size=16, workers=0)
    assert json.loads((tmp_path / "bench.json").read_text())["shards"]["images"] == 96
    assert [point[0] for point in result["shards"]["memory_mb"]] == [16, 32, 48, 64, 80, 96]
    assert result["folder"]["images_per_second"] > 0
    assert (tmp_path / "bench.png").stat().st_size > 1000
