"""The table of peers: one row per method and seed, with controls, in three formats that agree."""

from __future__ import annotations

import csv
import json

import pytest

from experiments import peers
from experiments.common import Job
from experiments.peers import Peers
from kvicreg.methods import METHODS


def test_every_method_is_a_row():
    assert {method for method, _ in peers.PEERS} == set(METHODS.load())
    assert all(("kernel" in settings) == method.startswith("kernel-") for method, settings in peers.PEERS)


def test_the_spectral_family_has_a_table_of_its_own_and_is_run_here_when_asked_for():
    job = Job("smoke", seeds=(0,))
    usual = {cell.settings.method.name for cell in peers.Peers().cells(job)}
    assert usual == set(METHODS.load()) - peers.NEIGHBOURS
    assert {cell.settings.method.name for cell in peers.Peers(methods=("mmcr",)).cells(job)} == {"mmcr"}


def test_the_table_has_methods_seeds_controls_and_settings(tmp_path):
    lines = []
    job = Job("smoke", (0, 1), runs=tmp_path / "runs", out=tmp_path, say=lines.append)
    rows = Peers("digits", ("kernel-simclr", "supervised"), on="validation").run(job).rows
    names = [row["method"] for row in rows]
    assert names.count("raw pixels") == 1
    for name in ("random encoder", "kernel-simclr", "supervised"):
        assert names.count(name) == 2
    for row in rows:
        assert all(0 <= row[f"{score}_low"] <= row[score] <= row[f"{score}_high"] for score in ("probe", "knn"))
        assert row["scored_on"] == 32

    written = json.loads((tmp_path / "peers-digits-validation.json").read_text())
    whole = [{**written["shared"], **row["config"]} for row in written["rows"]]
    assert whole[3:] == [row["config"] for row in rows[3:]]
    with (tmp_path / "peers-digits-validation.csv").open() as file:
        assert [row["method"] for row in csv.DictReader(file)] == names
    table = (tmp_path / "peers-digits-validation.md").read_text()
    assert all(f"| {name} |" in table for name in ("raw pixels", "kernel-simclr (rbf)", "supervised"))
    assert lines[-1] == table
    assert "made up" in table


def test_an_unknown_method_is_named(tmp_path):
    with pytest.raises(ValueError, match="there is no method 'simcrl'"):
        Peers("digits", ("simcrl",)).run(Job("smoke", runs=tmp_path, out=tmp_path))
