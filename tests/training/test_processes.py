"""Two processes that share the batches train as one process does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from safetensors.torch import load_file

from kvicreg.cli import main

SETTINGS = [
    "--data=mnist-small", "--epochs=1", "--max-steps=6", "--batch-size=64", "--width=0.25", "--norm=group",
    "--projector-hidden=32", "--projector-outputs=32", "--spectrum-images=32", "--probe-images=100",
    "--accelerator=cpu", "--precision=64-true", "--warmup-epochs=0",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["rbf"])
def test_two_processes_end_in_the_weights_of_one(tmp_path, kernel):
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(["train", *SETTINGS, f"--kernel={kernel}", f"--out={one}"]) == 0
    command = [sys.executable, "-m", "kvicreg", "train", *SETTINGS, f"--kernel={kernel}", f"--out={two}"]
    ran = subprocess.run([*command, "--devices=2", "--strategy=ddp"], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("Run folder") == 1
    for name in ("encoder.safetensors", "projector.safetensors"):
        expected, shared = load_file(one / name), load_file(two / name)
        for key, value in expected.items():
            assert (value - shared[key]).abs().max() < 1e-5, f"{name}: {key}"
