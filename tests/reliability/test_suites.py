"""The nightly suites at the size of a coffee break; `make nightly` runs the same code at full size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reliability.document import document
from tests.reliability.run import RESULTS

ROOT = Path(__file__).parents[2]


def suite(name: str, count: int, tmp_path: Path) -> dict:
    """A suite in a process of its own, because it forks; its result."""
    out = tmp_path / f"{name}.json"
    command = [sys.executable, "-m", "tests.reliability.run", name, f"--count={count}", "--seed=7", f"--out={out}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert out.is_file(), ran.stdout + ran.stderr
    result: dict = json.loads(out.read_text())
    assert ran.returncode == 0, json.dumps(result, indent=1)
    return result


@pytest.mark.slow
def test_eight_kills_full_disks_and_read_only_folders_lose_nothing(tmp_path):
    result = suite("faults", 8, tmp_path)
    assert result["kills"]["survived"] == result["kills"]["tried"] >= 8
    assert len(result["kills"]["by"]) >= 4


@pytest.mark.slow
def test_three_hundred_bad_inputs_get_a_sentence(tmp_path):
    assert suite("fuzz", 300, tmp_path)["cases"] == 300


@pytest.mark.slow
def test_ten_thousand_batches_are_finite(tmp_path):
    result = suite("numbers", 10_000, tmp_path)
    assert result["batches"] == 10_000
    assert result["computed_as_training_does"] >= 100


@pytest.mark.slow
def test_a_process_that_dies_or_hangs_ends_the_others_and_any_number_may_resume(tmp_path):
    assert suite("processes", 1, tmp_path)["tried"] == 1


@pytest.mark.slow
def test_memory_stays_flat_over_many_files(tmp_path):
    assert suite("load", 2_000, tmp_path)["failures"] == 0


def test_the_page_is_that_of_the_result_files():
    result = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    assert (ROOT / "docs" / "reliability.md").read_text() == document(result)
