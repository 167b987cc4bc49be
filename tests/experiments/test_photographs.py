"""The measurement of the plain command reads the times that the log tells, and runs nothing twice."""

from __future__ import annotations

import json

import pytest

from experiments import photographs as module
from experiments.photographs import for_page, logged, timings

LOG = {
    "seconds": 842.0,
    "peak_mb": 2100,
    "lines": [
        [1.3, "Starting PyTorch and Lightning ..."],
        [5.5, "Training takes about 15 minutes and 1.7 GB of memory (334 images/s on cpu); --time 30m or ..."],
        [9.0, "step 1 of 1080 (epoch 1 of 30)  loss 2.894"],
        [30.0, "step 12 of 1080 (epoch 1 of 30)  loss 2.5"],
    ],
}


def test_times_are_those_of_the_log():
    assert timings(LOG) == {
        "first_word_seconds": 1.3,
        "first_step_seconds": 9.0,
        "told_minutes": 15.0,
        "real_minutes": 14.0,
        "peak_mb": 2100,
    }


def test_a_command_is_run_once_and_its_failure_is_told(tmp_path, monkeypatch):
    log = logged(tmp_path, "help", ["--version"])
    assert log["lines"][0][1].startswith("kvicreg")
    monkeypatch.setattr(module.subprocess, "Popen", lambda *args, **more: pytest.fail("it was run again"))
    assert logged(tmp_path, "help", ["--version"]) == log
    monkeypatch.undo()
    with pytest.raises(ValueError, match="kvicreg trian ended with exit code 2"):
        logged(tmp_path, "wrong", ["trian"])
    assert not (tmp_path / "wrong.json").exists()


def test_the_page_has_a_line_for_each_encoder(tmp_path):
    assert "Not run yet" in for_page(tmp_path)
    encoders = {"vicreg": {"linear_probe": [60.0, 59.0, 61.0]}}
    numbers = timings(LOG) | {"epochs": 30, "images": 9469, "evaluate_minutes": 3.0, "encoders": encoders}
    (tmp_path / "bench-photographs.json").write_text(json.dumps(numbers))
    text = for_page(tmp_path)
    assert "9,469 photographs" in text
    assert "| vicreg | 60.0 (59.0 to 61.0) | - | - |" in text
