"""The public names carry their types: a strict program passes, and its mistakes are seen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

STRICT = """\
# mypy: disallow-untyped-calls, disallow-untyped-defs, disallow-any-generics, warn-return-any, no-implicit-reexport
"""

PROGRAM = """\
from pathlib import Path
import torch
from kvicreg import KernelVICRegLoss, VICRegLoss, kernels, load_encoder, operators, train

z1, z2 = torch.randn(8, 4), torch.randn(8, 4)
criterion = KernelVICRegLoss(kernel=0.3 * kernels.RBF() + 0.7 * kernels.Linear(), approximation=operators.Nystrom(4))
total: torch.Tensor = criterion.terms(z1, z2).total + VICRegLoss()(z1, z2)
spectrum: torch.Tensor = operators.covariance_operator(z1, "rbf").eigenvalues()
run: Path = train(quiet=True)
embeddings: torch.Tensor = load_encoder(run)(z1)
"""

MISTAKES = """\
import kvicreg
kvicreg.KernelVICRegLoss(kernel=3)
kvicreg.KernelVICRegLoss().terms(1.0)
kvicreg.VICRegLoss(variance_wait=1.0)
kvicreg.kernels.RBF(gamma=[1.0])
kvicreg.operators.no_such_name
kvicreg.load_encoder(5)
kvicreg.train(quiet="yes")
kvicreg.no_such_name
"""


@pytest.mark.slow
def test_a_strict_program_passes_and_its_mistakes_are_seen(tmp_path):
    assert len(PROGRAM.splitlines()) == 10
    (tmp_path / "program.py").write_text(STRICT + PROGRAM)
    (tmp_path / "mistakes.py").write_text(STRICT + MISTAKES)
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, "program.py", "mistakes.py"],  # quick where `make check` has been
        env={**os.environ, "MYPYPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=540,
    )
    printed = done.stdout + done.stderr
    reported = set(re.findall(r"^(\w+\.py):(\d+): error", done.stdout, flags=re.MULTILINE))
    # a name without types would let its mistake pass
    assert reported == {("mistakes.py", str(line + 2)) for line in range(1, len(MISTAKES.splitlines()))}, printed


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "kvicreg" / "py.typed").is_file()
