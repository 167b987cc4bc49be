"""The page as a file: whole, small, escaped, and free of what a passed-on page should not hold."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kvicreg.report.figures import write_figures
from kvicreg.report.page import payload, render, write_report
from kvicreg.report.read import read_run
from kvicreg.report.tables import again, comparison, confusions


@pytest.fixture(scope="module")
def page(three_runs, tmp_path_factory):
    notes = ["best", "-1 point", "-2 points"]
    return write_report(three_runs, tmp_path_factory.mktemp("page") / "report.html", notes=notes).read_text()


def test_the_page_is_small_and_refers_to_nothing_outside(page):
    assert len(page) < 10_000_000
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", page)
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_the_policy_allows_exactly_the_pages_own_script_and_style(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page).group(1)
    policy = policy.replace("&#39;", "'")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)[-1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_names_are_escaped_everywhere(page):
    assert "<b>vic" not in page
    assert "&lt;b&gt;vic&amp;reg" in page
    assert "\\u003cb\\u003evic" in page


def test_class_names_and_settings_are_escaped(three_runs, tmp_path):
    import shutil

    run = shutil.copytree(three_runs[0], tmp_path / "run")
    results = json.loads((run / "results.json").read_text())
    results["data"]["classes"] = ["</script><img src=x onerror=alert(1)>", *"123456789"]
    (run / "results.json").write_text(json.dumps(results))
    (run / "config.yaml").write_text("data: digits\nout: '<script>alert(2)</script>'\n")
    text = write_report([run]).read_text()
    assert "<img src=x" not in text
    assert "<script>alert" not in text
    assert text.count("</script>") == 2


def test_the_users_home_is_not_in_the_page(three_runs, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: three_runs[0].parent)
    text = write_report(three_runs[:1], tmp_path / "report.html").read_text()
    assert str(three_runs[0].parent) not in text
    assert "~/rbf/config.yaml" in text


@pytest.mark.parametrize(
    ("second", "controls", "lead"),
    [
        (("digits", 0.5), ["raw pixels"], "90 test images of digits"),
        (("clothes", 0.4), ["raw pixels of one", "raw pixels of two"],
         "80 test images of clothes, 90 test images of digits"),
    ],
)  # fmt: skip
def test_controls_of_every_run_are_in_the_table_and_once_where_they_are_the_same(second, controls, lead):
    def run(name, data, pixels):
        encoder, control = ({"knn": {"value": value, "low": value, "high": value}} for value in (0.9, pixels))
        about = {"name": data, "test_images": {"digits": 90, "clothes": 80}[data]}
        return SimpleNamespace(
            name=name, results={"subjects": {"encoder": encoder, "raw pixels": control}, "data": about}
        )

    table = comparison([run("one", "digits", 0.5), run("two", *second)], {})
    assert [row["name"] for row in table["rows"]] == ["one", "two", *controls]
    assert [row["control"] for row in table["rows"]] == [False, False] + [True] * len(controls)
    assert table["data"] == lead


def test_everything_asked_for_is_on_the_page(page):
    sections = ("comparison", "map", "training", "spectrum", "robustness", "confusion", "diagnostics", "again")
    for section in sections:
        assert f'<section id="{section}"' in page
        assert f'href="#{section}"' in page
    for words in (
        "raw pixels",
        "random encoder",
        "has the best linear probe",
        "kvicreg train --config",
        "scikit-learn",
    ):
        assert words in page


def test_the_same_run_gives_the_same_page(three_runs, tmp_path):
    one, two = (write_report(three_runs[:1], tmp_path / f"{k}.html").read_bytes() for k in range(2))
    assert one == two


def test_a_run_that_was_not_evaluated_still_has_a_page(tmp_path, make_run):
    text = write_report([make_run(tmp_path / "young")]).read_text()
    assert "Not evaluated yet" in text
    assert '<section id="training"' in text
    assert '<section id="map"' not in text


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("kvicreg report old/young", ""),
        ("kvicreg evaluate old/young", ""),
        ("kvicreg evaluate old/young old/other --groups 'my groups' --seed 3", " --groups 'my groups' --seed 3"),
        ("kvicreg evaluate --seed 3 old/young", " --seed 3"),
        ("kvicreg evaluate zoo:mnist --out old/young --seed 3", " --seed 3"),
        ("kvicreg evaluate zoo:mnist --out 'my runs/young' --seed 3", " --seed 3"),
        ("kvicreg evaluate old/young --on ~/other --groups '~/my groups'", " --on ~/other --groups ~/'my groups'"),
        ("""kvicreg evaluate old/young --groups 'it'"'"'s'""", """ --groups 'it'"'"'s'"""),
    ],
)
def test_the_lines_to_run_it_again_are_of_the_new_folder(tmp_path, make_run, command, options):
    run = make_run(tmp_path / "young")
    record = replace(read_run(run), results={"command": command})
    assert again([record])[0]["commands"].splitlines() == [
        f"kvicreg train --config {run}/config.yaml --out {run}-again",
        f"kvicreg evaluate {run}-again{options}",
        f"kvicreg report {run}-again",
    ]


def test_runs_of_the_same_images_share_one_sheet_of_pictures(three_runs):
    content = payload([read_run(run) for run in three_runs])
    assert len(content["pictures"]) == 1
    assert len({run["map"]["pictures"] for run in content["runs"]}) == 1
    assert all(0 <= v <= 1000 for v in content["runs"][0]["map"]["points"])


@pytest.mark.parametrize(("name", "is_upright"), [("cat", False), ("crocodile", True)])
def test_long_names_of_classes_stand_upright(three_runs, name, is_upright):
    run = read_run(three_runs[0])
    record = replace(run, results=run.results | {"data": {"classes": [f"{name}{k}" for k in range(10)]}})
    assert confusions([record])[0]["upright"] == is_upright


def test_a_map_without_labels_does_not_speak_of_classes(three_runs):
    run = read_run(three_runs[0])
    for label, told in ((0, True), (-1, False)):
        record = replace(run, map=run.map | {"labels": run.map["labels"] * 0 + label})
        assert ("coloured by class" in render([record], {})) == told


def test_many_classes_are_told_by_their_mistakes(three_runs, tmp_path):
    import shutil

    run = shutil.copytree(three_runs[0], tmp_path / "run")
    results = json.loads((run / "results.json").read_text())
    counts = np.diag(np.full(50, 9))
    counts[3, 7] = 5
    results["confusion"], results["data"]["classes"] = counts.tolist(), [f"class {k}" for k in range(50)]
    (run / "results.json").write_text(json.dumps(results))
    text = write_report([run]).read_text()
    assert "class 3 taken for class 7 (5)" in text
    assert 'class="confusion"' not in text


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("results.json", "{", "evaluate the run again"),
        ("metrics.csv", "a,b\n1,2\n", "no column 'epoch'"),
        ("spectrum.npz", "no zip", "is damaged"),
        ("config.yaml", "[1,", "is damaged"),
        ("config.yaml", "text", "expected lines like 'epochs: 20'"),
    ],
)
def test_damaged_files_get_a_sentence(tmp_path, make_run, name, content, sentence):
    run = make_run(tmp_path / "run")
    (run / name).write_text(content)
    with pytest.raises(ValueError, match=sentence):
        write_report([run])


def test_foreign_folders_get_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="not a run folder"):
        write_report([tmp_path])
    with pytest.raises(FileNotFoundError, match="there is no run folder"):
        write_report([tmp_path / "missing"])


def test_every_figure_is_written_as_png_and_svg(three_runs, tmp_path):
    files = write_figures(three_runs[0], tmp_path)
    names = {"training", "spectrum", "top-eigenvalues", "map", "robustness", "confusion"}
    assert {file.name for file in files} == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    assert all(file.stat().st_size > 1000 for file in files)


def test_a_run_without_labels_has_a_page_without_accuracies(three_runs, tmp_path):
    import shutil

    run = shutil.copytree(three_runs[0], tmp_path / "run")
    results = json.loads((run / "results.json").read_text())
    for key in ("confusion", "robustness"):
        del results[key]
    results |= {"subjects": {"encoder": {}}, "against": {}, "verdict": "Without labels nothing can be said."}
    results["data"]["classes"] = None
    (run / "results.json").write_text(json.dumps(results))
    arrays = dict(np.load(run / "evaluation" / "map.npz"))
    np.savez(run / "evaluation" / "map.npz", **(arrays | {"labels": np.full(200, -1)}))
    text = write_report([run]).read_text()
    assert "Without labels" in text
    assert '<section id="comparison"' not in text
    assert '<section id="map"' in text
    assert len(write_figures(run)) == 8
