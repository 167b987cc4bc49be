"""The wheel installs into an empty environment, and the loss works there with torch alone."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=540, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_wheel_installs_and_works_in_an_empty_environment(tmp_path):
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path)
    (wheel,) = tmp_path.glob("kvicreg-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"kvicreg"}  # neither tests nor experiments
    assert "kvicreg/py.typed" in names
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", wheel)
    installed = run(python, "-m", "pip", "list", "--format=freeze").lower()
    assert not any(f"{name}==" in installed for name in ("lightning", "scikit-learn", "torchvision", "pillow"))
    code = "import torch, kvicreg; print(float(kvicreg.KernelVICRegLoss()(torch.randn(8, 4), torch.randn(8, 4))))"
    script = tmp_path / "use.py"
    script.write_text(code)
    assert float(run(python, script)) > 0
    asking = "import kvicreg\ntry:\n    kvicreg.train\nexcept ModuleNotFoundError as error:\n    print(error)"
    script.write_text(asking)
    assert "pip install 'kvicreg[train]'" in run(python, script)
