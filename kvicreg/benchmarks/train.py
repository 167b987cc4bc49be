"""What a training step costs beyond the network, and how fast we train beside a loop of kornia and its peers.

Three loops take turns, step by step, in one process: `kvicreg` is our whole training (Lightning, batches, views, loss,
optimizer, record); `network` is forward, backward and optimizer of the same encoder and projector on ready tensors;
`peer` is a plain loop of kornia's views and pytorch-metric-learning's VICRegLoss around the same network.
"""

from __future__ import annotations

import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor

from kvicreg.benchmarks.views import kornia_views
from kvicreg.data import ArrayData, view_config
from kvicreg.training.build import build_method
from kvicreg.training.config import TrainConfig
from kvicreg.training.optim import build_optimizer
from kvicreg.training.run import train

CASES: dict[str, dict[str, Any]] = {
    "small CNN 28x28": {"encoder": "small-cnn", "channels": 1, "image_size": 28, "views": "digits"},
    "ResNet-18 (width 1/4) 32x32": {
        "encoder": "resnet18", "width": 0.25, "channels": 3, "image_size": 32, "views": "small"
    },
}  # fmt: skip
LIMIT = 1.12


def run(
    out: Path = Path("bench-train.json"), batch_size: int = 256, steps: int = 20, threads: int = 1
) -> list[dict[str, Any]]:
    """Time the three loops; print a table, write `out`, return its rows. Times are medians over `steps`."""
    from rich.console import Console
    from rich.table import Table

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rows = [measure(name, batch_size, steps) for name in CASES]
    finally:
        torch.set_num_threads(before)
    table = Table("network", "kvicreg ms", "network alone ms", "ratio", "kvicreg images/s", "peer images/s", box=None)
    for row in rows:
        table.add_row(
            row["case"], f"{row['kvicreg_ms']:,}", f"{row['network_ms']:,}", f"{row['ratio']:.3f}",
            f"{row['images_per_second']:,}", f"{row['peer_images_per_second'] or 'not installed':,}",
        )  # fmt: skip
    Console(soft_wrap=True).print(table)
    setting = {
        "what": f"time per training step; ratio = kvicreg / network alone, round by round; the aim: at most {LIMIT}",
        "peer": "kornia views and pytorch-metric-learning VICRegLoss in a plain loop around the same network",
        "batch_size": batch_size,
        "steps": steps,
        "threads": threads,
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(setting | {"rows": rows}, indent=2) + "\n")
    return rows


def measure(name: str, batch_size: int, steps: int) -> dict[str, Any]:
    """One row of the table."""
    case = CASES[name]
    shape = (batch_size * (steps + 3), case["channels"], case["image_size"], case["image_size"])
    images = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    config = TrainConfig(**case, epochs=1, batch_size=batch_size, probe_images=0, accelerator="cpu")
    others = {"network": network_step(config), **peer_step(config)}
    with tempfile.TemporaryDirectory() as folder:
        config.out = folder + "/run"
        turns = TakeTurns(others, steps)
        train(config, data=ArrayData(images, name="noise"), quiet=True, callbacks=[turns])
    medians = {who: statistics.median(times) for who, times in turns.seconds.items()}
    rounds = [ours / bare for ours, bare in zip(turns.seconds["kvicreg"], turns.seconds["network"], strict=True)]
    return {
        "case": name,
        "kvicreg_ms": round(1e3 * medians["kvicreg"], 1),
        "network_ms": round(1e3 * medians["network"], 1),
        "ratio": round(statistics.median(rounds), 3),
        "ratio_quartiles": [round(q, 3) for q in statistics.quantiles(rounds, n=4)[::2]],
        "images_per_second": round(batch_size / medians["kvicreg"]),
        "peer_images_per_second": round(batch_size / medians["peer"]) if "peer" in medians else None,
    }


class TakeTurns(pl.Callback):
    """After each of our training steps, times a step of each of the others; a disturbance meets them all."""

    def __init__(self, others: dict[str, Callable[[], None]], steps: int, warm_up: int = 2) -> None:
        self.others, self.steps, self.warm_up = others, steps, warm_up
        self.seconds: dict[str, list[float]] = {"kvicreg": [], **{who: [] for who in others}}
        self.started = 0.0

    def on_train_batch_end(self, trainer: pl.Trainer, module: Any, *_: Any) -> None:
        taken = {"kvicreg": time.perf_counter() - self.started}
        for who, step in self.others.items():
            started = time.perf_counter()
            step()
            taken[who] = time.perf_counter() - started
        if self.warm_up < module.batches_done <= self.warm_up + self.steps:
            for who, seconds in taken.items():
                self.seconds[who].append(seconds)
        self.started = time.perf_counter()


def network_step(config: TrainConfig) -> Callable[[], None]:
    """Forward, backward and optimizer of encoder and projector on ready tensors, with a linear loss."""
    step = _network(config)
    shape = (config.batch_size, config.channels, config.image_size, config.image_size)
    ready = [torch.randn(shape).to(memory_format=torch.channels_last) for _ in range(2)]  # type: ignore[arg-type]
    slopes = torch.randn(config.batch_size, config.projector_outputs) / config.batch_size
    return lambda: step(ready, lambda z1, z2: ((z1 + z2) * slopes).sum())


def peer_step(config: TrainConfig) -> dict[str, Callable[[], None]]:
    """A step of kornia's views and pytorch-metric-learning's VICReg; nothing where they are not installed."""
    try:
        from pytorch_metric_learning.losses import VICRegLoss

        views = kornia_views(view_config(config.views), config.channels, config.image_size)  # type: ignore[arg-type]
    except ImportError:
        return {}
    step, loss = _network(config), VICRegLoss()
    shape = (config.batch_size, config.channels, config.image_size, config.image_size)
    images = torch.randint(0, 256, shape, dtype=torch.uint8)  # type: ignore[arg-type]

    def peer() -> None:
        two = [views(images.float() / 255).to(memory_format=torch.channels_last) for _ in range(2)]
        step(two, lambda z1, z2: loss(z1, ref_emb=z2))

    return {"peer": peer}


def _network(config: TrainConfig) -> Callable[[list[Tensor], Callable[[Tensor, Tensor], Tensor]], None]:
    method = build_method(config)
    method.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = build_optimizer(method, config)

    def step(views: list[Tensor], loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        z1, z2 = (method.projector(method.encoder(view)) for view in views)
        optimizer.zero_grad()
        torch.autograd.backward(loss(z1, z2))
        optimizer.step()

    return step
