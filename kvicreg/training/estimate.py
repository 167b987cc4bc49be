"""What a run would cost: a few timed steps of it, scaled up."""

from __future__ import annotations

import resource
import sys
import time
from typing import NamedTuple

import torch

from kvicreg.data import ImageData, batches
from kvicreg.runs import Settings
from kvicreg.runs.durations import in_words
from kvicreg.training.build import build_method, build_views, resolve
from kvicreg.training.module import SelfSupervised


class Timing(NamedTuple):
    """What a few steps took: resolved settings, images and seconds per batch, batches in all, bytes at most, where."""

    settings: Settings
    batch_size: int
    seconds: float
    batches: int
    peak: int
    device: torch.device


def timed(settings: Settings, steps: int = 3, data: ImageData | None = None) -> Timing:
    """Train for `steps` batches on one device, forget the weights, and keep the time and the memory."""
    data = settings.data.load() if data is None else data
    views = build_views(settings, data)
    settings = resolve(settings, data, views)
    engine, schedule = settings.engine, settings.schedule
    device = torch.device(
        "cuda" if torch.cuda.is_available() and engine.accelerator in ("auto", "gpu", "cuda") else "cpu"
    )
    module = SelfSupervised(build_method(settings), settings, data=data, views=views).to(device)
    optimizer = settings.optimizer.build(module.method)
    batch_size = schedule.batch_size_for(len(data))
    images, samples, labels = next(batches(data, batch_size, seed=engine.seed, epoch=0))
    images = images[: max(2, batch_size // (engine.devices * engine.nodes))].to(device)
    samples = samples[: len(images)].to(device)
    labels = None if labels is None else labels[: len(images)].to(device)

    def step() -> float:
        started = time.perf_counter()
        module.method(module.views_of(images, samples), 0, labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    step()  # the first one allocates, and compiles
    seconds = sorted(step() for _ in range(steps))[steps // 2]
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else _resident_bytes()
    total = module.batches_per_epoch * schedule.epochs
    total = total if schedule.max_steps is None else min(total, schedule.max_steps * schedule.accumulate)
    return Timing(settings, batch_size, seconds, total, peak, device)


def estimate(settings: Settings) -> tuple[Settings, str]:
    """The resolved settings, and a sentence on memory and time from a few timed steps on one device."""
    settings, batch_size, seconds, total, peak, device = timed(settings)
    return settings, (
        f"About {in_words(seconds * total)} for {total:,} batches of {batch_size} "
        f"({seconds * 1e3:,.0f} ms each, {batch_size / seconds:,.0f} images/s, timed on {device.type}) "
        f"and {peak / 1e9:.1f} GB of {'device' if device.type == 'cuda' else 'main'} memory per process; "
        "probes, decoding of files and checkpoints come on top."
    )


def _resident_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
