"""`kvicreg bench loss` measures beside its peer, and the page about scaling shows what it measured."""

import csv
import json
import re
from pathlib import Path

import pytest

from kvicreg.benchmarks.loss import Row, markdown, run, scaling_slopes
from kvicreg.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    sizes, scaling = ["32x16", "32x32", "64x16", "64x32"], ["64x1024", "128x1024"]
    rows = run(out, sizes, scaling, ("linear", "rbf"), ("rff:16", "nystrom:16"), repeats=2, device="cpu")
    return out, rows


def test_every_size_kernel_and_approximation_is_there_with_its_peer(measured):
    out, rows = measured
    written = json.loads((out / "bench-loss.json").read_text())
    assert [Row(**row) for row in written["rows"]] == rows
    assert len(rows) == 4 * 2 + 2 * 2
    for row in rows:
        assert row.ratio == pytest.approx(row.milliseconds / row.peer_milliseconds, rel=0.02)
        assert row.peak_mib > 0
        assert row.peer_peak_mib > 0
    assert set(written["slopes"]) == {"rff:16", "nystrom:16"}
    with (out / "bench-loss.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(rows)


def test_figures_are_drawn(measured):
    out, _ = measured
    for name in ("latency", "memory"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / f"{name}.svg").read_text()


def test_slope_is_that_of_a_power_law():
    rows = [Row(b, 8, "rbf", "rff:2", 3.0 * b, b**2, 1.0, 1.0, 1.0) for b in (2, 8, 64)]
    assert scaling_slopes(rows, "rff:2") == {"milliseconds": 1.0, "peak_mib": 2.0}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sizes", "256"], "BATCHxWIDTH"),
        (["--sizes", "1x8"], "at least 2"),
        (["--sizes", "8x8", "--kernels", "rfb"], "unknown kernel 'rfb'"),
        (["--sizes", "8x8", "--approximations", "fourier"], "rff:FEATURES"),
    ],
)
def test_wrong_flags_get_a_sentence(flags, message, tmp_path, capsys):
    assert main(["bench", "loss", "--out", str(tmp_path), *flags]) in (1, 2)
    assert message in capsys.readouterr().err


def test_page_about_scaling_shows_what_was_measured():
    rows = [Row(**row) for row in json.loads((ROOT / "docs/results/bench-loss/bench-loss.json").read_text())["rows"]]
    page = (ROOT / "docs/scaling.md").read_text()
    shown = re.search(r"<!-- bench-loss\.md -->\n(.*?)<!-- end -->", page, flags=re.DOTALL)
    assert shown is not None
    assert shown[1] == markdown(rows)
