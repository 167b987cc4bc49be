"""Throughput of the batched views beside kornia's, with the same strengths, on the same images, in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from kvicreg.benchmarks.measure import using_threads, write_result
from kvicreg.data import ViewConfig, Views, view_config

CASES = {  # name: (preset, channels, side)
    "digits 28x28": ("digits", 1, 28),
    "natural 32x32": ("small", 3, 32),
    "natural 96x96": ("natural", 3, 96),
}


def run(out: Path, batch_size: int, repeats: int, threads: int) -> list[dict[str, object]]:
    """Time two views of a batch, ours and kornia's in turn; print a table, write `out`, return its rows.

    Rates are images per second of one core's time, counting each view as an image, from the median of `repeats`
    timings: time that other programs take from the core does not count.
    """
    from rich.console import Console
    from rich.table import Table

    with using_threads(threads):
        rows = [measure(name, *case, batch_size, repeats) for name, case in CASES.items()]
    table = Table("views", "kvicreg, images/s", "kornia, images/s", "ratio", box=None, header_style="bold")
    for row in rows:
        table.add_row(
            str(row["views"]), f"{row['kvicreg']:,}", f"{row['kornia']:,}" if row["kornia"] else "not installed",
            f"{row['ratio']} x" if row["ratio"] else "",
        )  # fmt: skip
    Console(soft_wrap=True).print(table)
    conditions = {
        "what": "images per second of one core's time, two views of a batch, median of the repeats",
        "batch_size": batch_size,
        "repeats": repeats,
        "threads": threads,
        "kornia": _kornia_version(),
    }
    write_result(out, conditions, ("data",), rows=rows)
    return rows


def measure(name: str, preset: str, channels: int, side: int, batch_size: int, repeats: int) -> dict[str, object]:
    """One row: our rate, kornia's and their ratio."""
    images = torch.randint(0, 256, (batch_size, channels, side, side), generator=_seeded()).to(torch.uint8)
    samples = torch.arange(batch_size)
    config = view_config(preset)
    views = Views(config, size=side, mean=(0.5,) * channels, std=(0.25,) * channels)

    def ours() -> None:
        for view in (0, 1):
            views(images, samples, seed=0, epoch=0, view=view)

    contenders = {"kvicreg": ours}
    if _kornia_version() is not None:
        peer = kornia_views(config, channels, side)

        def theirs() -> None:
            for _ in (0, 1):
                peer(images.float() / 255)

        contenders["kornia"] = theirs
    seconds = _in_turn(contenders, repeats)
    rates = {who: round(2 * batch_size / time) for who, time in seconds.items()}
    ratio = round(rates["kvicreg"] / rates["kornia"], 1) if "kornia" in rates else None
    return {"views": name, "kvicreg": rates["kvicreg"], "kornia": rates.get("kornia"), "ratio": ratio}


def kornia_views(config: ViewConfig, channels: int, side: int) -> Callable[[Tensor], Tensor]:
    """The same operations with the same strengths, by kornia."""
    import kornia.augmentation as K

    c, parts = config, []
    if c.affine:
        scale = (1 - c.zoom, 1 + c.zoom)
        parts.append(K.RandomAffine(c.rotation, (c.translation,) * 2, scale, c.shear, p=1.0))
    if c.crop_area < 1:
        ratio = (1 / c.crop_ratio, c.crop_ratio)
        parts.append(K.RandomResizedCrop((side, side), scale=(c.crop_area, c.crop_area_max), ratio=ratio))
    if c.flip:
        parts.append(K.RandomHorizontalFlip(p=c.flip))
    if c.jitter:
        parts.append(K.ColorJitter(c.brightness, c.contrast, c.saturation, c.hue, p=c.jitter))
    if c.grayscale:
        parts.append(K.RandomGrayscale(p=c.grayscale))
    if c.blur:
        kernel = 2 * round(1.5 * c.blur_sigma) + 1
        parts.append(K.RandomGaussianBlur((kernel, kernel), (0.1, c.blur_sigma), p=c.blur))
    if c.solarize:
        parts.append(K.RandomSolarize(0.0, 0.0, p=c.solarize))
    parts.append(K.Normalize(torch.full((channels,), 0.5), torch.full((channels,), 0.25)))
    return K.AugmentationSequential(*parts, data_keys=["input"])


def _in_turn(contenders: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of each; they alternate, so that a disturbance of the machine meets both."""
    times: dict[str, list[float]] = {who: [] for who in contenders}
    for call in contenders.values():
        call()
    for _ in range(repeats):
        for who, call in contenders.items():
            start = time.process_time()
            call()
            times[who].append(time.process_time() - start)
    return {who: statistics.median(values) for who, values in times.items()}


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _kornia_version() -> str | None:
    try:
        import kornia
    except ImportError:
        return None
    return str(kornia.__version__)
