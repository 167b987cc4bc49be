"""A run killed at any moment and resumed ends in the weights of an uninterrupted run, bit for bit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from kvicreg.cli import main

SETTINGS = [
    "--data=mnist-small", "--epochs=2", "--batch-size=512", "--width=0.25", "--pool=1", "--projector-hidden=32",
    "--projector-outputs=32", "--checkpoint-steps=2", "--spectrum-images=32", "--probe-images=100", "--log-every=5",
    "--bandwidth=median", "--bandwidth-momentum=0.9", "--accelerator=cpu",
]  # fmt: skip


def kill_after_checkpoints(folder: Path, count: int, *arguments: str) -> None:
    """Start a run; kill -9 it once last.ckpt has been replaced `count` times, in the middle of what comes next."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kvicreg", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    last, seen, stamp = folder / "checkpoints" / "last.ckpt", 0, None
    while seen < count:
        assert process.poll() is None, "the run ended before it could be killed"
        now = last.stat().st_mtime_ns if last.is_file() else None
        if now != stamp:
            stamp, seen = now, seen + 1
        time.sleep(0.002)
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_a_run_killed_twice_and_resumed_equals_an_uninterrupted_one_bit_for_bit(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert main(["train", *SETTINGS, f"--out={whole}"]) == 0

    kill_after_checkpoints(broken, 3, "train", *SETTINGS, f"--out={broken}")  # within the first epoch
    assert not (broken / "metrics.csv").exists()
    kill_after_checkpoints(broken, 8, "train", f"--resume={broken}")  # within the second
    assert len((broken / "metrics.csv").read_text().splitlines()) == 2
    assert main(["train", f"--resume={broken}"]) == 0

    for name in ("encoder.safetensors", "projector.safetensors"):
        expected, resumed = load_file(whole / name), load_file(broken / name)
        assert expected.keys() == resumed.keys()
        assert all(expected[k].equal(resumed[k]) for k in expected), name
    rows = [[line.split(",")[:12] for line in (f / "metrics.csv").read_text().splitlines()] for f in (whole, broken)]
    assert rows[0] == rows[1]  # all but the speed
