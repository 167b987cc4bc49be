"""`kvicreg bench loss` measures beside its peers, and the page about scaling shows what it measured."""

import csv
import json
import re
import time
from pathlib import Path

import pytest
import torch

from kvicreg import VICRegLoss
from kvicreg.benchmarks import loss
from kvicreg.benchmarks.loss import PEERS, Row, markdown, run, scaling_slopes
from kvicreg.benchmarks.peers import peers, published_vicreg
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
        times = {"published": row.published_milliseconds, "metric-learning": row.metric_learning_milliseconds}
        assert set(PEERS) == set(times)
        assert row.peer_milliseconds == times[row.peer] == min(t for t in times.values() if t is not None)
    assert set(written["slopes"]) == {"rff:16", "nystrom:16"}
    with (out / "bench-loss.csv").open() as file:
        assert [line["peer"] for line in csv.DictReader(file)] == [row.peer for row in rows]
    assert set(written["peers"]) == set(peers())
    assert f"({rows[0].peer})" in (out / "bench-loss.md").read_text()


@pytest.mark.parametrize("shape", [(2, 1), (5, 8), (64, 16)])
def test_peers_are_vicreg(shape):
    generator = torch.Generator().manual_seed(0)
    one, two = (torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2))
    expected = VICRegLoss()(one, two)
    gradients = torch.autograd.grad(expected, (one, two))
    for peer in peers().values():
        torch.testing.assert_close(peer(one, two), expected)
        torch.testing.assert_close(torch.autograd.grad(peer(one, two), (one, two)), gradients)


def test_ratios_are_to_the_faster_peer(monkeypatch):
    def slow(one, two):
        time.sleep(0.05)
        return published_vicreg(one, two)

    for names in (("published", "metric-learning"), ("metric-learning", "published")):
        monkeypatch.setattr(loss, "peers", lambda names=names: dict(zip(names, (published_vicreg, slow), strict=True)))
        (row,) = loss._measure(16, 8, [("linear", "exact")], 3, "cpu")
        assert row.peer == names[0]
        assert row.peer_milliseconds < 50 < max(row.published_milliseconds, row.metric_learning_milliseconds)


def test_rows_from_before_the_second_peer_are_read():
    row = Row(**dict(zip(Row.__dataclass_fields__, (2, 8, "rbf", "exact", 3.0, 1.0, 6.0, 1.0, 0.5), strict=False)))
    assert row.peer == "metric-learning"
    assert "| 2 x 8 | 6 (metric-learning) | 0.500 |" in markdown([row])


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
        (["--sizes", "8x8", "--kernels", "rfb"], "unknown kernel or loss 'rfb'"),
        (["--sizes", "8x8", "--approximations", "fourier"], "rff:FEATURES"),
    ],
)
def test_wrong_flags_get_a_sentence(flags, message, tmp_path, capsys):
    assert main(["bench", "loss", "--out", str(tmp_path), *flags]) in (1, 2)
    assert message in capsys.readouterr().err


def test_page_about_scaling_shows_what_was_measured():
    path = ROOT / "docs/results/bench-loss/bench-loss.json"
    rows = [Row(**row) for row in json.loads(path.read_text())["rows"]]
    page = (ROOT / "docs/scaling.md").read_text()
    shown = re.search(r"<!-- bench-loss\.md -->\n(.*?)<!-- end -->", page, flags=re.DOTALL)
    assert shown is not None
    assert shown[1] == markdown(rows)


def test_other_losses_and_more_views_are_rows_of_their_own(tmp_path):
    names = ("rbf", "rbf-per-view", "vicreg", "mmcr")
    rows = run(tmp_path, ["256x64", "256x64x4"], [], names, (), repeats=1, device="cpu")
    assert [(row.loss, row.views) for row in rows] == [(name, views) for views in (2, 4) for name in names]
    text = (tmp_path / "bench-loss.md").read_text()
    assert "| 256 x 64, 4 views |" in text
    assert "rbf-per-view" in text


@pytest.mark.parametrize("name", loss.LOSSES)
def test_every_loss_of_the_table_takes_views(name):
    z = torch.randn(3, 12, 5, requires_grad=True)
    loss.LOSSES[name]()(*z).backward()
    assert z.grad.isfinite().all()
