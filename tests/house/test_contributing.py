"""The samples in CONTRIBUTING.md work as they stand: each file is put into a copy of the project, and its tests run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT

PAGE = ROOT / "CONTRIBUTING.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
DIFFS = re.findall(r"^```diff\n# (.*?)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
SAMPLES = {name[1]: block for block in BLOCKS if (name := re.match(r"# ([\w/]+\.py)\n", block))}
CONTRACTS = ("tests/kernels/test_every_kernel.py", "tests/methods/test_methods.py", "tests/test_docstrings.py")


def run(folder, *command):
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def without(sign, diff):
    """One side of a diff: its lines but those with the sign."""
    return "".join(line[1:] or "\n" for line in diff.splitlines(keepends=True) if not line.startswith(sign))


def test_there_is_one_file_and_one_test_for_each():
    files = [Path(name) for name in SAMPLES]
    tests = [file for file in files if file.parts[0] == "tests"]
    folders = ["kernels", "kernels", "methods", "data", "experiments"]
    assert [file.parent.name for file in files if file not in tests] == folders
    assert [name for name, _ in DIFFS] == ["kvicreg/optimizers.py"]
    assert [file.parent.name for file in tests] == [*folders[:3], "tests", *folders[3:]]


def test_all_code_on_the_page_is_a_file_that_is_tried():
    assert [block for block in BLOCKS if block not in SAMPLES.values()] == []


@pytest.mark.slow
def test_samples_work_and_are_as_tidy_as_the_rest(tmp_path):
    for name in ("kvicreg", "tests", "experiments", "pyproject.toml"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (ROOT / name).is_file():
            shutil.copy(ROOT / name, tmp_path / name)
    for name, text in SAMPLES.items():
        assert not (tmp_path / name).exists()
        (tmp_path / name).write_text(text)
    for name, diff in DIFFS:
        before, after = (without(sign, diff) for sign in "+-")
        text = (tmp_path / name).read_text()
        assert text.count(before) == 1
        (tmp_path / name).write_text(text.replace(before, after))
    stems = [Path(name).stem for name in SAMPLES if not name.startswith("tests/")]
    tests = [name for name in SAMPLES if name.startswith("tests/")]
    names = " or ".join([*stems, "beta2"])
    printed = run(tmp_path, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-k", names, *tests, *CONTRACTS)
    passed = [line for line in printed.splitlines() if line.startswith("PASSED")]
    for name in tests:
        assert sum(name in line for line in passed) == SAMPLES[name].count("\ndef test_")
    joined = [(0, "huber"), (0, "stretched"), (1, "alignment"), (2, "gratings")]  # they join these by themselves
    for contract, new in joined:
        assert any(CONTRACTS[contract] in line and new in line for line in passed)
    run(tmp_path, "-m", "ruff", "check", "--no-cache", *SAMPLES)
    run(tmp_path, "-m", "ruff", "format", "--no-cache", "--check", *SAMPLES)
