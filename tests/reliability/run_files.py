"""Bad run folders: a file of theirs, or their checkpoint, is damaged, swapped or missing."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import torch

from tests.reliability.damage import spoil, spoil_json, spoil_npz

RUN_FILES = (
    "config.yaml", "encoder.json", "encoder.safetensors", "metrics.csv", "spectrum.npz", "results.json",
    "projector.safetensors", "evaluation/scores.npz",
)  # fmt: skip


def run_folders(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """A run folder with a spoilt, emptied, swapped or missing file."""
    run = folder / "run"
    shutil.copytree(base / "run", run, ignore=shutil.ignore_patterns("tensorboard", "*.ckpt", "figures", "features"))
    victim = run / chance.choice(RUN_FILES)
    way = chance.random()
    if way < 0.1:
        victim.unlink()
    elif way < 0.2:
        shutil.copy(base / "run" / chance.choice(RUN_FILES), victim)
    elif way < 0.45 and victim.suffix == ".json":
        victim.write_text(json.dumps(spoil_json(chance, json.loads(victim.read_text()))))
    elif way < 0.6 and victim.suffix == ".npz":
        spoil_npz(chance, victim)
    else:
        victim.write_bytes(spoil(chance, victim.read_bytes()))
    commands = [
        ["embed", "run", f"{base}/images", "--workers=0", "--out=e.npz"],
        ["report", "run"],
        ["embed", "run", f"{base}/images", "--workers=0", "--out=e.csv", "--projector"],
        ["evaluate", "run", "--robustness-images=0", "--map-images=0"],
        ["replay", "run"],
    ]
    wanted = {
        "encoder.json": (0, 2, 3),
        "encoder.safetensors": (0, 3),
        "projector.safetensors": (2,),
        "config.yaml": (1, 3),
    }
    if victim.name == "results.json" and not victim.exists():
        return commands[3]  # a report would evaluate first, with the map, whose first use compiles for a minute
    return commands[chance.choice(wanted.get(victim.name, (1,)))]


def checkpoints(chance: random.Random, folder: Path, base: Path) -> list[str]:
    """A last.ckpt with wrong bytes, or of somebody else."""
    run = folder / "run"
    shutil.copytree(base / "run", run, ignore=shutil.ignore_patterns("tensorboard", "evaluation", "figures"))
    last = run / "checkpoints" / "last.ckpt"
    way = chance.random()
    if way < 0.6:
        last.write_bytes(spoil(chance, last.read_bytes()))
    elif way < 0.8:
        content = torch.load(last, weights_only=True)
        key = chance.choice(sorted(content))
        content[key] = chance.choice((None, {}, [], "x", -1, torch.ones(2)))
        torch.save(content, last)
    else:

        class Run:
            def __reduce__(self) -> Any:
                return (print, ("somebody else's code has run: Traceback",))

        torch.save({"state_dict": Run()}, last)
    return ["train", "--resume", "run"]
