"""The pages of results are what the committed result files make of them."""

import json
from pathlib import Path

import pytest

from kvicreg.cli import main
from kvicreg.reproduction import results_page as pages
from kvicreg.reproduction.pages import section

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.skipif(not DOCS.is_dir(), reason="the package without its documents")
def test_the_pages_are_up_to_date():
    fix = "make it so with: kvicreg reproduce page"
    assert (DOCS / "results.md").read_text(encoding="utf-8") == pages.results_page(DOCS / "results"), fix
    assert section(DOCS / "parametrization.md", "study") == pages.study_section(DOCS / "results").strip(), fix


@pytest.mark.skipif(not DOCS.is_dir(), reason="the package without its documents")
def test_every_number_in_the_files_has_the_settings_of_its_run():
    for path in sorted((DOCS / "results").glob("*.json")):
        content = json.loads(path.read_text())
        for row in content["rows"] if "shared" in content else []:
            of_run = {"data", "holdout"} if row["method"] == "raw pixels" else {"data", "seed", "encoder"}
            assert of_run <= {*content["shared"], *row["config"]}, path.name


def test_a_page_has_a_section_for_every_file_and_names_what_was_not_run(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    (results / "peers-digits.json").write_text('{"budget": "small"}')
    (results / "peers-digits.md").write_text("| method |\n")
    (results / "proof.json").write_text('{"budget": "small"}')
    (results / "proof.md").write_text("said\n\n### mnist\n\n| a |\n")
    (results / "proof.png").touch()
    assert main(["reproduce", "page", "--docs", str(tmp_path)]) == 0
    page = (tmp_path / "results.md").read_text()
    assert page.index("![proof](results/proof.png)") < page.index("#### mnist") < page.index("### peers-digits")
    assert "Not run yet: `kvicreg reproduce table1`" in page
    assert "Not run yet: `kvicreg reproduce proof`" not in page


def test_without_results_the_folder_is_named(tmp_path, capsys):
    assert main(["reproduce", "page", "--docs", str(tmp_path)]) == 1
    assert f"{tmp_path / 'results'} is not there" in capsys.readouterr().err
