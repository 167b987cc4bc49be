"""The benchmark of the views runs, and the page about data says what the code and the measurement say."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from kvicreg.benchmarks.views import CASES, kornia_views, run
from kvicreg.data import PRESETS, ViewConfig, view_config

DOCS = Path(__file__).resolve().parents[2] / "docs"


def table_rows(page: Path) -> list[list[str]]:
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_small_run_writes_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kornia", reason="kornia is the peer that is measured beside")
    threads = torch.get_num_threads()
    rows = run(tmp_path / "out" / "bench.json", batch_size=4, repeats=1, threads=1)
    written = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert written["rows"] == rows
    assert [row["views"] for row in rows] == list(CASES)
    assert "kornia" in capsys.readouterr().out
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", CASES)
def test_kornia_does_every_part_of_the_preset(name: str) -> None:
    pytest.importorskip("kornia", reason="kornia is the peer that is measured beside")
    preset, channels, side = CASES[name]
    out = kornia_views(view_config(preset), channels, side)(torch.rand(8, channels, side, side))
    assert out.shape == (8, channels, side, side)


def test_the_page_lists_the_presets_as_they_are() -> None:
    if not DOCS.is_dir():
        pytest.skip("the documentation is not beside the tests")
    page = {row[0].strip("`"): row[1:5] for row in table_rows(DOCS / "data.md") if len(row) == 6}
    for field in fields(ViewConfig):
        expected = [f"{getattr(PRESETS[name], field.name):.3g}" for name in ("digits", "clothes", "small", "natural")]
        assert page[field.name] == expected, field.name


def test_the_page_quotes_the_measurement() -> None:
    if not DOCS.is_dir():
        pytest.skip("the documentation is not beside the tests")
    measured = json.loads((DOCS / "results" / "bench-views.json").read_text())["rows"]
    quoted = table_rows(DOCS / "data.md")
    for row in measured:
        assert [row["views"], f"{row['kvicreg']:,}", f"{row['kornia']:,}", str(row["ratio"])] in quoted
