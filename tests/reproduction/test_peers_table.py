"""The table of peers: one row per method and seed, with controls, in three formats that agree."""

from __future__ import annotations

import csv
import json

from kvicreg.methods import METHODS
from kvicreg.reproduction import peers
from kvicreg.training import TrainConfig


def test_every_method_is_a_row():
    assert {method for method, _ in peers.PEERS} == set(METHODS)
    assert all((kernel is not None) == method.startswith("kernel-") for method, kernel in peers.PEERS)


def test_the_table_has_methods_seeds_and_controls(tmp_path):
    config = TrainConfig(
        data="digits", epochs=1, batch_size=256, width=0.25, pool=1, projector_hidden=16, projector_outputs=16,
        probe_images=0, spectrum_images=32, accelerator="cpu",
    )  # fmt: skip
    said = []
    chosen = [("kernel-simclr", "rq"), ("supervised", None)]
    rows = peers.run(config, tmp_path, seeds=(0, 1), peers=chosen, runs=tmp_path / "runs", say=said.append)
    names = [row["method"] for row in rows]
    assert names.count("raw pixels") == 1
    for name in ("random encoder", "kernel-simclr (rq)", "supervised"):
        assert names.count(name) == 2
    assert all(0 < row[key] <= 1 for row in rows for key in ("probe", "probe_few", "knn"))
    assert json.loads((tmp_path / "peers-digits.json").read_text())["rows"] == rows
    with (tmp_path / "peers-digits.csv").open() as file:
        assert [row["method"] for row in csv.DictReader(file)] == names
    table = (tmp_path / "peers-digits.md").read_text()
    assert all(f"| {name} |" in table for name in set(names))
    assert said[-1] == table
