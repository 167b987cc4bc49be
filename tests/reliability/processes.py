"""Processes: under DDP one is killed or made to hang; the other ends with a sentence, and any number may resume.

Resumed on one process and on two, the first gradient is the same to 1e-5, and so are the final weights.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]
MODULE = "tests.reliability.processes"
LIMIT = 30.0  # seconds that processes wait for each other here
PATIENCE = 900.0  # seconds for what takes ten, on a machine that does other things as well
SETTINGS = {
    "data": "digits", "image_size": 16, "epochs": 2, "batch_size": 32, "width": 0.25, "norm": "group", "pool": 1,
    "projector_hidden": 16, "projector_outputs": 16, "spectrum_images": 16, "probe_images": 0, "accelerator": "cpu",
    "max_steps": 24, "checkpoint_steps": 2, "timeout_minutes": LIMIT / 60, "precision": "64-true", "strategy": "ddp",
}  # fmt: skip


def start(folder: Path, devices: int, *words: str) -> subprocess.Popen[str]:
    """This module as a program: trains `folder` on so many processes."""
    command = [sys.executable, "-m", MODULE, str(folder), str(devices), *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def companion_of(process: subprocess.Popen[str]) -> int | None:
    """The process that the first one has started beside it."""
    for line in subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout.splitlines():
        pid, parent, *arguments = line.split()
        if parent == str(process.pid) and MODULE in arguments:
            return int(pid)
    return None


def one(number: int, chance: random.Random, work: Path) -> str | None:
    """One fault; what went wrong, or None."""
    way = ("killed", "hung")[number % 2]
    run = work / f"run-{number}"
    process = start(run, 2, "may-hang")
    checkpoint, seen, stamp = run / "checkpoints" / "last.ckpt", 0, 0
    wanted = chance.randrange(1, 6)
    while seen < wanted:
        if process.poll() is not None:
            return f"ended by itself: {process.communicate()[0][-400:]}"
        if checkpoint.is_file() and checkpoint.stat().st_mtime_ns != stamp:
            stamp, seen = checkpoint.stat().st_mtime_ns, seen + 1
        time.sleep(0.005)
    other = companion_of(process)
    if other is None:
        process.kill()
        return "the second process was not found"
    os.kill(other, signal.SIGKILL if way == "killed" else signal.SIGUSR1)
    try:
        output = process.communicate(timeout=LIMIT + PATIENCE)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        os.kill(other, signal.SIGKILL)
        return f"{way}: the first process did not end"
    if process.returncode != 1 or "Traceback" in output or "process of this training" not in output:
        return f"{way}: exit code {process.returncode}: {output[-400:]}"
    if Path(f"/proc/{other}").exists() and "zombie" not in Path(f"/proc/{other}/status").read_text():
        os.kill(other, signal.SIGKILL)
        return f"{way}: the second process was left behind"
    return resumed(run, way)


def resumed(run: Path, way: str) -> str | None:
    """Resume on one process and on two, from the same checkpoint; what differs."""
    gradients, weights = [], []
    for devices in (1, 2):
        copy = run.with_name(f"{run.name}-{devices}")
        shutil.copytree(run, copy)
        process = start(copy, devices, "resume")
        output = process.communicate(timeout=PATIENCE)[0]
        if process.returncode:
            return f"{way}: can't be resumed on {devices}: {output[-400:]}"
        gradients.append(torch.load(copy / "gradient.pt", weights_only=True))
        weights.append(torch.cat([v.flatten() for v in load_file(copy / "encoder.safetensors").values()]))
    if (gradients[0] - gradients[1]).abs().max() > 1e-5 * gradients[0].abs().max():
        return f"{way}: the first gradients differ by {float((gradients[0] - gradients[1]).abs().max()):.1e}"
    if (weights[0] - weights[1]).abs().max() > 1e-5:
        return f"{way}: the final weights differ by {float((weights[0] - weights[1]).abs().max()):.1e}"
    return None


def run(count: int, seed: int) -> dict[str, Any]:
    """`count` faults, kills and hangs in turn; the result file's content."""
    failed = []
    with tempfile.TemporaryDirectory() as work:
        for number in range(count):
            wrong = one(number + seed, random.Random(f"{seed}/{number}"), Path(work))
            if wrong is not None:
                failed.append({"case": number, "wrong": wrong})
            print(f"processes: {number + 1} of {count}, {len(failed)} failures", file=sys.stderr)
    return {"tried": count, "survived": count - len(failed), "failures": len(failed), "failed": failed}


def main() -> int:
    """One training process, as `kvicreg train` would be; its first gradient is kept."""
    from kvicreg.cli.process import import_lightning

    import_lightning()
    import lightning.pytorch as pl

    from kvicreg.cli.errors import tell
    from kvicreg.runs import Settings
    from kvicreg.training import train

    folder, devices, resume = Path(sys.argv[1]), int(sys.argv[2]), "resume" in sys.argv

    class FirstGradient(pl.Callback):
        saved = False

        def on_train_batch_start(self, *_: Any) -> None:
            time.sleep(0.1 if "may-hang" in sys.argv else 0)  # so that who is to hang it finds it at work

        def on_before_optimizer_step(self, trainer: pl.Trainer, module: Any, optimizer: Any) -> None:
            if not self.saved and trainer.is_global_zero and resume:
                gradient = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
                torch.save(gradient.clone(), folder / "gradient.pt")
            self.saved = True

    if "may-hang" in sys.argv:
        signal.signal(signal.SIGUSR1, lambda *_: time.sleep(1e6))
    settings: dict[str, Any] = SETTINGS | {"out": str(folder), "devices": devices}
    try:
        train(Settings.of(**settings), resume=resume, callbacks=[FirstGradient()])
    except Exception as error:
        return tell(error, "train")
    return 0


if __name__ == "__main__":
    sys.exit(main())
