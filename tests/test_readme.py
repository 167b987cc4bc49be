"""The README's Python code runs as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_there_is_code():
    assert BLOCKS


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_code_runs_as_printed(block, tmp_path):
    script = tmp_path / "readme.py"
    script.write_text(BLOCKS[block], encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(README.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
