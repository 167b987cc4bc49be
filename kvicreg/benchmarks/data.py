"""Reading a million images from shards: memory over an epoch, and images per second beside a folder of files.

Images are small and random, so that what is timed is finding and decoding a file, not its pixels. The epoch is that of
training: random order, worker processes, no image kept. Rates are per second of core time, of all processes together.
"""

from __future__ import annotations

import io
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kvicreg.benchmarks.measure import write_result
from kvicreg.data import batches, load
from kvicreg.data.packing import pack

__all__ = ["draw", "run"]

SIDE = 16
_POINTS = 50


def run(
    out: Path, images: int, folder_images: int, batch_size: int, workers: int, work: Path | None = None
) -> dict[str, Any]:
    """Pack, read an epoch of the shards and one of a folder; print a summary, write `out` and a figure beside it.

    Args:
        folder_images: how many of the images lie in a folder too.
        work: where images are written for the time being; by default the system's temporary folder.
    """
    from rich.console import Console

    say = Console(soft_wrap=True, highlight=False).print
    with tempfile.TemporaryDirectory(dir=work) as place:
        root = Path(place)
        say(f"Drawing {images:,} images and packing them ...")
        array = _random_images(root / "images.npy", images)
        started = core_seconds()
        packed = pack(root / "images.npy", root / "shards")
        packing = core_seconds() - started
        say(f"packed {images:,} images into {packed.shards} shards of {packed.size / 1e6:,.0f} MB in {packing:,.0f} s")
        _write_files(array[:folder_images], root / "folder")
        del array
        (root / "images.npy").unlink()
        shards = read_epoch(str(root / "shards"), batch_size, workers, say)
        folder = read_epoch(str(root / "folder"), batch_size, workers, say)
    conditions = {
        "what": f"an epoch of training's reading: {SIDE}x{SIDE} PNG in random order, batches of {batch_size}, "
        f"{workers} worker processes, no image kept; rates are per second of core time, memory is the proportional set "
        "size of all processes",
    }
    shards |= {"files": packed.shards, "megabytes": round(packed.size / 1e6)}
    rate = round(images / packing)
    result = write_result(out, conditions, ("data",), packing_images_per_second=rate, shards=shards, folder=folder)
    draw(result, out.with_suffix(".png"))
    return result


def read_epoch(source: str, batch_size: int, workers: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Images per second of an epoch, and memory along it as (images read, MB)."""
    started = time.perf_counter()
    data = load(source)
    opening = time.perf_counter() - started
    data.cache_limit = 0
    total = len(data) // batch_size
    memory, read, started, told_at = [], 0, core_seconds(), time.perf_counter()
    for number, (pixels, _, _) in enumerate(batches(data, batch_size, seed=0, epoch=0, workers=workers), 1):
        read += len(pixels)
        if number % max(1, total // _POINTS) == 0:
            memory.append((read, round(resident_megabytes(), 1)))
            if time.perf_counter() - told_at > 10:
                told_at = time.perf_counter()
                say(f"{data.name}: {read:,} of {len(data):,} images read, {memory[-1][1]:,.0f} MB")
    rate = read / (core_seconds() - started)
    say(f"{data.name}: {read:,} images, {rate:,.0f} a second, opened in {opening:.1f} s, {memory[-1][1]:,.0f} MB")
    return {
        "images": len(data),
        "opening_seconds": round(opening, 2),
        "images_per_second": round(rate),
        "memory_mb": memory,
    }


def core_seconds() -> float:
    """Seconds of a core that this process, and those of its children that have ended, have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)


def resident_megabytes() -> float:
    """Memory of this process and its children; pages that several of them share are counted once."""
    here = Path("/proc/self")
    if not (here / "smaps_rollup").is_file():
        raise OSError("memory over time is read from /proc, which only Linux has")
    children = (here / "task" / here.resolve().name / "children").read_text().split()
    return sum(_proportional(Path("/proc") / pid) for pid in (here.resolve().name, *children)) / 1e3


def _proportional(process: Path) -> int:
    """Kilobytes of a process, shared pages divided by those who share them; none for one that has just ended."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _random_images(path: Path, count: int) -> np.ndarray:
    """Colour noise in a memory-mapped array, written a part at a time."""
    array = np.lib.format.open_memmap(path, "w+", np.uint8, (count, SIDE, SIDE, 3))
    for start in range(0, count, 10_000):
        part = array[start : start + 10_000]
        part[:] = np.random.default_rng(start).integers(0, 256, part.shape, dtype=np.uint8)
    array.flush()
    return array


def _write_files(images: np.ndarray, folder: Path) -> None:
    """PNG files, a thousand to a subfolder."""
    from PIL import Image

    for number, pixels in enumerate(images):
        place = folder / f"{number // 1000:04}"
        place.mkdir(parents=True, exist_ok=True)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        (place / f"{number:07}.png").write_bytes(file.getvalue())


def draw(result: dict[str, Any], out: Path) -> None:
    """The figure: memory over the epoch."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    read, memory = zip(*result["shards"]["memory_mb"], strict=True)
    axes.plot([count / 1e6 for count in read], memory, color="#0072B2")
    axes.set(
        xlabel="million images read", ylabel="memory of all processes, MB", ylim=(0, 1.25 * max(memory)),
        title=f"{result['shards']['images']:,} images in {result['shards']['files']} shards: "
        f"{result['shards']['images_per_second']:,} a second of core time",
    )  # fmt: skip
    axes.grid(alpha=0.3)
    figure.savefig(out, dpi=130)
    plt.close(figure)
