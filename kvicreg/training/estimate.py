"""What a run would cost: a few timed steps of it, scaled up."""

from __future__ import annotations

import resource
import sys
import time
from typing import NamedTuple

import torch

from kvicreg.data import batches
from kvicreg.training.build import build_data, build_method, build_views, resolve
from kvicreg.training.config import TrainConfig
from kvicreg.training.module import SelfSupervised
from kvicreg.training.optim import build_optimizer


class Timing(NamedTuple):
    """What a few steps took: the resolved config, seconds per batch, batches in all, bytes at most, and where."""

    config: TrainConfig
    seconds: float
    batches: int
    peak: int
    device: torch.device


def timed(config: TrainConfig, steps: int = 3) -> Timing:
    """Train for `steps` batches on one device, forget the weights, and keep the time and the memory."""
    data = build_data(config)
    views = build_views(config, data)
    config = resolve(config, data, views)
    device = torch.device(
        "cuda" if torch.cuda.is_available() and config.accelerator in ("auto", "gpu", "cuda") else "cpu"
    )
    module = SelfSupervised(build_method(config), config, data=data, views=views).to(device)
    optimizer = build_optimizer(module.method, config)
    images, samples, labels = next(batches(data, config.batch_size, seed=config.seed, epoch=0))
    images = images[: max(2, config.batch_size // (config.devices * config.nodes))].to(device)
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
    total = module.batches_per_epoch * config.epochs
    total = total if config.max_steps is None else min(total, config.max_steps * config.accumulate)
    return Timing(config, seconds, total, peak, device)


def estimate(config: TrainConfig) -> tuple[TrainConfig, str]:
    """The resolved config, and a sentence on memory and time from a few timed steps on one device."""
    config, seconds, total, peak, device = timed(config)
    return config, (
        f"About {_duration(seconds * total)} for {total:,} batches of {config.batch_size} "
        f"({seconds * 1e3:,.0f} ms each, {config.batch_size / seconds:,.0f} images/s, timed on {device.type}) "
        f"and {peak / 1e9:.1f} GB of {'device' if device.type == 'cuda' else 'main'} memory per process; "
        "probes, decoding of files and checkpoints come on top."
    )


def _resident_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
