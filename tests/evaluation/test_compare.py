"""Runs side by side: who is best, who is worse beyond chance, and the table that says so."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kvicreg.evaluation.compare import comparison_table, notes_against_best, significance
from kvicreg.evaluation.intervals import bootstrap_interval, paired_bootstrap
from kvicreg.evaluation.results import measure
from kvicreg.runs import RunFolder
from kvicreg.runs.results import short_names, write_results


def right(share, count=200):
    """Scores of so many images, of which this share is right."""
    return (torch.arange(count) < round(share * count)).float()


@pytest.fixture
def runs(tmp_path):
    """Four evaluated runs: the best, two that are worse, and one that is level with the best."""
    folders = {}
    shares = {"one": 0.9, "two": 0.5, "three": 0.8, "four": 0.895}
    for name, share in shares.items():
        run = RunFolder(tmp_path / name)
        run.path.mkdir()
        scores = right(share)
        run.write_arrays("scores", **{"encoder|linear_probe": scores.numpy(), "fingerprint": np.array("same")})
        encoder = {"linear_probe": measure(bootstrap_interval(scores), "linear_probe")}
        pixels = {
            "linear_probe": {"value": 0.25, "low": 0.2, "high": 0.3},
            "nmi": {"value": 0.5, "low": 0.4, "high": 0.5},
        }
        if name == "two":
            pixels = {"linear_probe": {"value": 0.35, "low": 0.3, "high": 0.4}}
        subjects = {"encoder": encoder, "raw pixels": pixels}
        write_results(run.results_path(), {"format": 1, "data": {"name": "x"}, "subjects": subjects})
        folders[name] = run.path
    return folders


def test_runs_are_told_from_the_best_by_holms_correction(runs):
    best, differences = significance([*runs.values()])
    assert best == runs["one"]
    assert set(differences) == {runs[name] for name in ("two", "three", "four")}
    plain = {
        name: paired_bootstrap(right({"two": 0.5, "three": 0.8, "four": 0.895}[name]), right(0.9))
        for name in ("two", "three", "four")
    }
    in_order = sorted(plain, key=lambda name: plain[name].p_value)
    floor = 0.0
    for factor, name in zip((3, 2, 1), in_order, strict=True):
        floor = min(1.0, max(floor, factor * plain[name].p_value))
        assert differences[runs[name]].p_value == pytest.approx(floor)
        assert differences[runs[name]].difference == pytest.approx(plain[name].difference)


def test_the_table_has_runs_down_and_measures_across(runs):
    order = [runs[name] for name in ("two", "one", "four")]
    lines = comparison_table(order).splitlines()
    assert lines[0].split("  ")[0] == ""
    headings = [word.strip() for word in lines[0].split("  ") if word.strip()]
    assert headings == ["linear probe", "k-means NMI", "against the best"]
    assert lines[1] == "-" * len(lines[0])
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[2:-1]]
    assert [row[0] for row in cells] == ["two", "one", "four", "raw pixels of two", "raw pixels of one"]
    assert cells[0][2] == "-"
    assert cells[0][1].startswith("50.0 ±")
    assert cells[0][-1].startswith("-40.0 points, p = 0.00")
    assert cells[0][-1].endswith(": worse")
    assert cells[1][-1] == "best linear probe"
    assert cells[2][-1].startswith("-0.5 points, p = ")
    assert cells[2][-1].endswith(": no clear difference")
    assert cells[3][1:] == ["35.0 ±5.0", "-"]
    assert cells[4][1:] == ["25.0 ±5.0", "50.0 ±5.0"]
    assert lines[-1].startswith("Percent, with half of the 95 % interval over test images")
    alone = comparison_table([runs["one"]])
    assert "against the best" not in alone
    assert [line.split("  ")[0] for line in alone.splitlines()[2:-1]] == ["one", "raw pixels"]


def test_runs_that_can_not_be_compared_say_so(runs, tmp_path):
    RunFolder(runs["two"]).write_arrays(
        "scores", **{"encoder|linear_probe": right(0.5).numpy(), "fingerprint": np.array("other")}
    )
    two = [runs["one"], runs["two"]]
    assert notes_against_best(two) == ["not compared"] * 2
    assert notes_against_best(two[:1]) == [""]
    with pytest.raises(ValueError, match="evaluated on different test images: use --on DATA"):
        significance(two)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match="has no scores of its test images"):
        significance([runs["one"], empty])
    nothing = {"format": 1, "data": {"name": "x"}, "subjects": {"encoder": {}}}
    write_results(RunFolder(empty).results_path(), nothing)
    assert comparison_table([empty]) == "no labels, so no accuracies to compare"
    same = [tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "c"]
    assert short_names(same) == ["a/run", "b/run", "c"]
