"""A page shows hostile names as text and runs nothing of theirs, in a real browser; it says nothing of home folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kvicreg.report.page import write_report
from kvicreg.runs import RunFolder
from kvicreg.runs.results import write_results
from kvicreg.storage import without_home

SCRIPT = "<script>document.title='taken'</script>"
IMAGE = "<img src=x onerror=\"document.title='taken'\">"
BREAK_OUT = "</script><script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def hostile(three_runs, tmp_path_factory):
    """An evaluated run whose name, classes, settings, groups and warnings all try to be markup."""
    run = tmp_path_factory.mktemp("pages") / "<img src=x onerror=alert(1)>"
    shutil.copytree(three_runs[0], run)
    results = json.loads((run / "results.json").read_text())
    results["data"]["classes"] = [SCRIPT, IMAGE, BREAK_OUT, *results["data"]["classes"][3:]]
    results["data"]["name"] = SCRIPT
    results["verdict"] = IMAGE
    results["command"] = f"kvicreg evaluate {Path.home()}/secret/{SCRIPT}"
    results["versions"] = {BREAK_OUT: "1"}
    (run / "results.json").write_text(json.dumps(results))
    folder = RunFolder(run)
    folder.write_settings(folder.settings.replace(cache_folder=BREAK_OUT, data_root=f"{Path.home()}/private/images"))
    rows = (run / "metrics.csv").read_text().replace("embeddings shrink", '"' + SCRIPT + " in /home/alice/photos" + '"')
    (run / "metrics.csv").write_text(rows)
    return write_report([run])


def test_the_page_says_nothing_of_home_folders(hostile):
    page = hostile.read_text()
    assert str(Path.home()) + "/" not in page
    assert "/home/alice" not in page
    assert "~/private/images" in page


def test_results_say_nothing_of_home_folders(tmp_path):
    results = {
        "command": f"kvicreg evaluate {Path.home()}/runs/a --on /home/bob/x",
        "data": {"names": ["/Users/eve/y"]},
    }
    write_results(tmp_path / "results.json", results)
    text = (tmp_path / "results.json").read_text()
    assert json.loads(text) == {"command": "kvicreg evaluate ~/runs/a --on ~/x", "data": {"names": ["~/y"]}}


@pytest.mark.parametrize("text", ["/data/home/x", "at home", "/homework/x", "runs/home/a", "~/home/a"])
def test_other_paths_are_left_alone(text):
    assert without_home(text) == text


@pytest.mark.browser
def test_hostile_names_are_shown_and_run_nothing(hostile, load_page):
    browser = load_page(hostile.as_uri())
    assert browser.title.startswith("<img src=x onerror=alert(1)>")
    shown = browser.execute_script("return document.body.textContent")
    assert all(text in shown for text in (SCRIPT, IMAGE, BREAK_OUT))
    assert browser.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
    assert [entry["message"] for entry in browser.get_log("browser")] == [], "nor was anything blocked that had started"


@pytest.mark.browser
def test_the_policy_stops_a_script_that_got_in_all_the_same(hostile, browser, tmp_path):
    page = hostile.read_text().replace("</main>", f"{SCRIPT}{IMAGE}</main>")
    (tmp_path / "changed.html").write_text(page)
    browser.get((tmp_path / "changed.html").as_uri())
    assert "taken" not in browser.title
    messages = " ".join(entry["message"] for entry in browser.get_log("browser"))
    assert "Content Security Policy" in messages
