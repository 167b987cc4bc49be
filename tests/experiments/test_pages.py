"""The pages of results are what the committed result files make of them."""

import json
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.common import page as pages
from experiments.common.experiment import load_all
from experiments.explore_page import measured_part

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.skipif(not DOCS.is_dir(), reason="the package without its documents")
def test_the_pages_are_up_to_date():
    fix = "make it so with: python -m experiments page"
    assert (DOCS / "results.md").read_text(encoding="utf-8") == pages.results_page(DOCS / "results"), fix
    for name, experiment in load_all().items():
        if experiment.page:
            written = experiment.for_page(DOCS / "results").strip()
            assert pages.part_of(DOCS / experiment.page, name) == written, fix
    assert pages.part_of(DOCS / "explore.md", "explore") == measured_part(DOCS / "results").strip(), fix


@pytest.mark.skipif(not DOCS.is_dir(), reason="the package without its documents")
def test_every_number_in_the_files_has_the_settings_of_its_run():
    for path in sorted((DOCS / "results").glob("*.json")):
        content = json.loads(path.read_text())
        for row in content["rows"] if "shared" in content else []:
            of = {"raw pixels": {"data", "holdout"}, "starting encoder": {"data", "encoder", "init"}}
            of_run = of.get(row["method"], {"data", "seed", "encoder"})
            assert of_run <= {*content["shared"], *row["config"]}, path.name


def test_a_page_has_a_section_for_every_file_and_names_what_was_not_run(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    (results / "peers-digits.json").write_text('{"budget": "small", "rows": []}')
    (results / "peers-digits.md").write_text("| method |\n")
    (results / "defaults-vs-vicreg.json").write_text('{"budget": "small", "rows": []}')
    (results / "defaults-vs-vicreg.md").write_text("said\n\n### mnist\n\n| a |\n")
    (results / "defaults-vs-vicreg.png").touch()
    assert main(["page", "--docs", str(tmp_path)]) == 0
    page = (tmp_path / "results.md").read_text()
    order = ("![defaults-vs-vicreg](results/defaults-vs-vicreg.png)", "#### mnist", "### peers-digits")
    assert sorted(order, key=page.index) == [*order]
    assert "Not run yet: `python -m experiments table1`" in page
    assert "Not run yet: `python -m experiments defaults-vs-vicreg`" not in page


def test_without_results_the_folder_is_named(tmp_path, capsys):
    assert main(["page", "--docs", str(tmp_path)]) == 1
    assert f"{tmp_path / 'results'} is not there" in capsys.readouterr().err
