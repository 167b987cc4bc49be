"""The page tells of the study a run has won, and advises in words."""

import csv
import json
import shutil

import pytest

from kvicreg.report.page import write_report
from kvicreg.selection.advice import advise_on_run

SELECTION = {
    "criterion": "consensus",
    "winner": "rbf",
    "ranking": [
        {"candidate": "rbf", "steps": 40, "criteria": {"consensus": 0.41234, "rankme": 30.0}, "error": None},
        {"candidate": "<i>odd", "steps": 20, "criteria": {}, "error": "NotFinite: <b>diverged"},
    ],
    "advice": ["rbf ranks first by consensus."],
}


@pytest.fixture
def won(three_runs, tmp_path):
    run = tmp_path / "won"
    shutil.copytree(three_runs[0], run)
    (run / "selection.json").write_text(json.dumps(SELECTION))
    return run


def test_the_ranking_and_the_advice_are_on_the_page(won, tmp_path):
    page = write_report([won], tmp_path / "page.html", advice=[advise_on_run(won)]).read_text()
    assert "The choice of the kernel" in page
    assert "rbf ranks first by consensus." in page
    assert "0.412" in page
    assert "&lt;b&gt;diverged" in page
    assert "<i>odd" not in page
    assert "kvicreg select compares them" not in page


def test_a_run_of_no_study_is_told_about_select(three_runs, tmp_path):
    said = advise_on_run(three_runs[0])
    assert any("kvicreg select compares them" in line for line in said)
    page = write_report([three_runs[0]], tmp_path / "page.html", advice=[said]).read_text()
    assert "kvicreg select compares them" in page
    assert "The choice of the kernel" not in write_report([three_runs[0]], tmp_path / "plain.html").read_text()


def test_advice_reads_the_record(tmp_path):
    columns = {"epoch": 1, "effective_rank": 10.0, "warning": "", "share_1_RBF": 0.8, "share_2_Linear": 0.2}
    with (tmp_path / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(columns))
        writer.writeheader()
        writer.writerows(columns | {"epoch": e, "effective_rank": 10.0 * e} for e in range(1, 5))
    said = " ".join(advise_on_run(tmp_path))
    assert "still rising" in said
    assert "RBF has the largest share, 80%" in said


def test_a_damaged_selection_gets_a_sentence(won, tmp_path):
    (won / "selection.json").write_text("{")
    advise_on_run(won)
    with pytest.raises(ValueError, match="selection.json is damaged"):
        write_report([won], tmp_path / "page.html")
