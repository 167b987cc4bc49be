"""The runs behind the correlation table: resumable, shared, with failures as results."""

import json
from dataclasses import replace

import pytest

from kvicreg.reproduction.selection import run, shared_config
from kvicreg.selection.candidates import Candidate
from kvicreg.selection.criteria import CRITERIA

CANDIDATES = [
    Candidate("linear", {"kernel": "linear"}),
    Candidate("rbf", {"kernel": "rbf"}),
    Candidate("impossible", {"kernel": "rbf", "degree": 3}),
]


@pytest.fixture
def config():
    small = shared_config("mnist-small", images=150, holdout=200)
    return replace(small, batch_size=64, width=0.25, projector_hidden=32, projector_outputs=32, spectrum_images=32)


def test_parts_make_the_whole_and_finished_cells_are_skipped(config, tmp_path):
    said = []
    for part in ((0, 2), (1, 2)):
        path = run(config, tmp_path / "out", tmp_path / "runs", candidates=CANDIDATES, part=part, say=said.append)
    content = json.loads(path.read_text())
    rows = {row["candidate"]: row for row in content["rows"]}
    assert "the rbf kernel has no degree" in rows["impossible"]["error"]
    assert list(rows["rbf"]["criteria"]) == ["2", "4", "8", "16"]
    for values in rows["rbf"]["criteria"].values():
        assert set(values) == set(CRITERIA)
    assert 0.1 < rows["linear"]["probe"] <= 1
    assert any("left to other processes" in line for line in said)

    said.clear()
    again = run(config, tmp_path / "out", tmp_path / "runs", candidates=CANDIDATES, say=said.append)
    assert said == []
    assert json.loads(again.read_text()) == content
