"""The notebooks run, and the site shows them as they are."""

from __future__ import annotations

import json

import pytest

from website import notebooks


@pytest.mark.parametrize("script", notebooks.SCRIPTS, ids=lambda path: path.stem)
def test_it_runs_and_its_page_shows_this_code_and_every_picture(script, tmp_path):
    shown = notebooks.run(script, tmp_path)
    code = [text.strip() for kind, text in notebooks.cells(script.read_text()) if kind == "code"]
    assert len(shown) == len(code)
    page = (notebooks.PAGES / f"{script.stem}.md").read_text()
    assert [cell for cell in code if cell not in page] == []
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures == {path.name for path in notebooks.PAGES.glob(f"{script.stem}-*.png")}
    assert pictures
    assert all(f"({name})" in page for name in pictures)


def test_cells_are_cut_at_their_marks():
    script = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\n\n# %%\nprint(x)\n"
    assert notebooks.cells(script) == [
        ("markdown", "# Title\n\nText.\n\n"),
        ("code", "x = 1\n\n"),
        ("code", "print(x)\n"),
    ]
    kinds = [cell["cell_type"] for cell in json.loads(notebooks.ipynb(script))["cells"]]
    assert kinds == ["markdown", "code", "code"]


def test_every_notebook_is_on_the_list():
    index = (notebooks.PAGES / "index.md").read_text()
    assert [path.stem for path in notebooks.SCRIPTS if f"({path.stem}.md)" not in index] == []
