"""Load: many files, long loops and large outputs in flat memory, without more files, workers or threads.

- train: an epoch over a folder of `count` small images, decoded by workers; memory is compared after a tenth of the
  batches and at the end.
- soak: a training, an evaluation and an embedding again and again; memory, open files, threads and children are
  compared after a third of the rounds and at the end.
- embed: a folder larger than the memory it may take: the output has more bytes than the memory that is added.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import lightning.pytorch as pl

from kvicreg.cli import main
from kvicreg.evaluation.embed import embed
from kvicreg.runs import Settings
from kvicreg.training import train
from tests.reliability.pictures import picture

MAY_GROW = 40.0  # MB between the two looks at a process's memory: allocators and caches, not data


def resident() -> float:
    """MB of this process and its children."""
    pages = [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in (os.getpid(), *children())]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def children() -> list[int]:
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def counts() -> dict[str, int]:
    """What a leak would add to, beside memory."""
    here = Path(f"/proc/{os.getpid()}")
    return {"files": len(list((here / "fd").iterdir())), "threads": len(list((here / "task").iterdir()))} | {
        "children": len(children())
    }


def write_images(folder: Path, count: int) -> int:
    """`count` small PNG files in folders of a thousand; every thousandth is new, the others are links to those."""
    chance, originals = random.Random(0), []
    for k in range(count):
        place = folder / f"{k // 1000:04}"
        if k % 1000 == 0:
            place.mkdir(parents=True)
        path = place / f"{k:06}.png"
        if len(originals) < 200:
            picture(chance).convert("RGB").resize((16, 16)).save(path)
            originals.append(path)
        else:
            os.link(originals[k % 200], path)
    return count


class Watch(pl.Callback):
    """Memory every so many batches."""

    def __init__(self, every: int) -> None:
        self.every, self.seen = every, []

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        if module.batches_done % self.every == 0:
            self.seen.append(round(resident(), 1))


def train_many(images: Path, count: int, work: Path) -> dict[str, Any]:
    batch = min(512, count // 20)
    watch = Watch(max(1, count // batch // 20))
    settings = Settings.of(
        data=str(images),
        image_size=16,
        epochs=1,
        batch_size=batch,
        width=0.25,
        pool=1,
        projector_hidden=32,
        projector_outputs=32,
        spectrum_images=64,
        probe_images=0,
        workers=1,
        accelerator="cpu",
        out=str(work / "many"),
    )
    train(settings, quiet=True, callbacks=[watch])
    early, late = watch.seen[max(1, len(watch.seen) // 10)], watch.seen[-1]
    return {"images": count, "megabytes": watch.seen, "grown_by_mb": round(late - early, 1)}


def soak(work: Path, images: Path, rounds: int) -> dict[str, Any]:
    small = work / "small"
    for split, part in (("train", slice(0, 96)), ("test", slice(96, 128))):
        (small / split / "a").mkdir(parents=True)
        (small / split / "b").mkdir()
        for k, path in enumerate(sorted(images.rglob("*.png"))[part]):
            shutil.copy(path, small / split / "ab"[k % 2])
    arguments = [
        "--image-size=16",
        "--epochs=2",
        "--batch-size=16",
        "--width=0.25",
        "--pool=1",
        "--projector-hidden=16",
        "--projector-outputs=16",
        "--workers=1",
        "--spectrum-images=16",
        "--accelerator=cpu",
        "--overwrite",
    ]
    seen = []
    for _ in range(rounds):
        assert main(["train", f"--data={small}", f"--out={work}/soak", *arguments]) == 0
        assert main(["evaluate", f"{work}/soak", "--robustness-images=0", "--map-images=0", "--workers=1"]) == 0
        assert main(["embed", f"{work}/soak", str(small), f"--out={work}/soak.npz", "--workers=1"]) == 0
        gc.collect()  # what waits to be collected is not lost
        seen.append({"megabytes": round(resident(), 1), **counts()})
    early, late = seen[rounds // 3], seen[-1]
    grown = {key: round(late[key] - early[key], 1) for key in late}
    return {"rounds": rounds, "first": seen[0], "early": early, "late": late, "grown_by": grown}


def embed_many(work: Path, images: Path, count: int) -> dict[str, Any]:
    """With the projector made wide, so that the output is large beside everything else."""
    settings = Settings.of(
        data=str(images),
        image_size=16,
        epochs=1,
        max_steps=2,
        batch_size=32,
        width=0.25,
        pool=1,
        projector_hidden=16,
        projector_outputs=2048,
        spectrum_images=16,
        probe_images=0,
        workers=0,
        accelerator="cpu",
        out=str(work / "wide"),
    )
    train(settings, quiet=True)
    folder, out = work / "wide", work / "wide.npz"
    before, seen, over = resident(), [0.0], threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            seen.append(resident())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        embed(folder, images, out, projector=True, workers=0, batch_size=256)
    finally:
        over.set()
        looking.join()
    added, written = max(seen) - before, out.stat().st_size / 1e6
    return {"images": count, "output_mb": round(written, 1), "memory_added_mb": round(added, 1)}


def run(count: int, seed: int) -> dict[str, Any]:
    """A folder of `count` images; the result file's content."""
    failed = []
    with tempfile.TemporaryDirectory() as name, open(os.devnull, "w") as nowhere:
        work = Path(name)
        images = work / "images"
        write_images(images, count)
        streams, sys.stdout, sys.stderr = (sys.stdout, sys.stderr), nowhere, nowhere
        try:
            many = train_many(images, count, work)
            again = soak(work, images, rounds=max(4, min(60, count // 2000)))
            wide = embed_many(work, images, count)
        finally:
            sys.stdout, sys.stderr = streams
    if many["grown_by_mb"] > MAY_GROW:
        failed.append(f"training grew by {many['grown_by_mb']} MB")
    grown = again["grown_by"]
    if grown["megabytes"] > MAY_GROW or any(grown[key] > 0 for key in ("files", "threads", "children")):
        failed.append(f"the loop grew by {grown}")
    if wide["memory_added_mb"] > max(150.0, 0.2 * wide["output_mb"]):
        failed.append(f"embedding added {wide['memory_added_mb']} MB for {wide['output_mb']} MB")
    return {"train": many, "soak": again, "embed": wide, "failures": len(failed), "failed": failed}
