"""The runs behind the correlation table: resumable, shared, with failures as results."""

import json

import pytest

from experiments import selection
from experiments.common import Job
from experiments.selection import Selection
from kvicreg.selection.criteria import CRITERIA

SIZES = {"images": 150, "holdout": 200, "workers": 0, "batch_size": 64, "width": 0.25, "projector_hidden": 32,
         "projector_outputs": 32, "spectrum_images": 32}  # fmt: skip


def test_parts_make_the_whole_and_finished_cells_are_skipped(tmp_path, monkeypatch):
    real = selection.advance

    def advance(settings, *steps, **more):
        if settings.method.kernel.choice == "polynomial":
            raise ValueError("the loss is not finite")
        return real(settings, *steps, **more)

    monkeypatch.setattr(selection, "advance", advance)
    monkeypatch.setitem(selection.Job.settings.__globals__["SETTINGS"], "small", SIZES)
    lines = []
    trials = Selection(("mnist-small",), ("linear", "rbf", "polynomial"))
    path = tmp_path / "out" / "selection" / "mnist-small.json"
    for part in ("1/2", "2/2"):
        assert not path.is_file()
        trials.run(Job(part=part, runs=tmp_path / "runs", out=tmp_path / "out", say=lines.append))
    content = json.loads(path.read_text())
    rows = {row["candidate"]: row for row in content["rows"]}
    assert rows["polynomial"]["error"] == "the loss is not finite"
    assert list(rows["rbf"]["criteria"]) == ["2", "4", "8", "16"]
    for values in rows["rbf"]["criteria"].values():
        assert set(values) == set(CRITERIA)
    assert 0.1 < rows["linear"]["probe"] <= 1
    assert any("the others are not in the tables yet" in line for line in lines)

    monkeypatch.setattr(selection, "advance", lambda *_, **__: pytest.fail("trained again"))
    for runs in ("runs", "elsewhere"):  # from the run folders, and from the file alone
        trials.run(Job(runs=tmp_path / runs, out=tmp_path / "out", say=lines.append))
        assert json.loads(path.read_text()) == content
