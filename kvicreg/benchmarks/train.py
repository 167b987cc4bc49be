"""What a training step costs beyond the network, and how fast we train beside a loop of kornia and its peers.

Loops take turns, step by step, in one process: `kvicreg` is our whole training (Lightning, batches, views, loss,
optimizer, record); `network` is forward, backward and optimizer of the same encoder and projector on ready tensors;
`loss` is the loss alone, forward and backward, on ready embeddings;
`peer` is a plain loop of kornia's views and VICReg in its published form around the same network.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor

from kvicreg.benchmarks.measure import using_threads, write_result
from kvicreg.benchmarks.peers import published_vicreg
from kvicreg.benchmarks.views import kornia_views
from kvicreg.data import ArrayData, view_config
from kvicreg.losses import KernelVICRegLoss
from kvicreg.runs import Settings
from kvicreg.training.build import build_method
from kvicreg.training.run import train

CASES: dict[str, dict[str, Any]] = {
    "small CNN 28x28": {"encoder": "small-cnn", "channels": 1, "image_size": 28, "views": "digits"},
    "ResNet-18 (width 1/4) 32x32": {
        "encoder": "resnet18", "width": 0.25, "channels": 3, "image_size": 32, "views": "small"
    },
}  # fmt: skip
LARGE: dict[str, dict[str, Any]] = {
    "ResNet-50 64x64": {
        "encoder": "resnet50", "stem": "imagenet", "channels": 3, "image_size": 64, "views": "small"
    },
    "ViT-S/16 64x64": {
        "encoder": "hf:vit", "model_args": "hidden_size=384,num_attention_heads=6,intermediate_size=1536",
        "channels": 3, "image_size": 64, "views": "small",
    },
}  # fmt: skip
"""The shapes that people train on GPUs."""
LIMIT = 1.12


def run(out: Path, batch_size: int, steps: int, threads: int, *, large: bool = False) -> list[dict[str, Any]]:
    """Time the loops; print a table, write `out`, return its rows. Times are medians over `steps`."""
    from kvicreg.benchmarks import jpeg  # it uses what is below

    with using_threads(threads):
        cases = LARGE if large else CASES
        rows = [measure(name, case, batch_size, steps) for name, case in cases.items()]
        files = None if large else jpeg.measure(batch_size, steps)
    _show(rows, files)
    conditions = {
        "what": f"time per training step; ratio = kvicreg / network alone, round by round; the target: at most {LIMIT}",
        "peer": "kornia views and VICReg in its published form in a plain loop around the same network; of files a "
        "DataLoader of Pillow",
        "batch_size": batch_size,
        "steps": steps,
        "threads": threads,
    }
    of = ("kernels", "operators", "losses", "data", "models", "methods", "training")
    write_result(out, conditions, of, rows=rows, files=files)
    return rows


def _show(rows: list[dict[str, Any]], files: dict[str, Any] | None) -> None:
    """Print the table, and a line on images in files where they were measured."""
    from rich.console import Console
    from rich.table import Table

    names = "network", "kvicreg ms", "alone ms", "ratio", "loss", "images/s", "peer images/s"
    table, console = Table(*names, box=None), Console(soft_wrap=True)
    for column in table.columns:
        column.no_wrap = True
    for row in rows:
        table.add_row(
            row["case"], f"{row['kvicreg_ms']:,}", f"{row['network_ms']:,}", f"{row['ratio']:.3f}",
            f"{row['loss_share']:.1%}",
            f"{row['images_per_second']:,}", _rate(row["peer_images_per_second"]),
        )  # fmt: skip
    console.print(table)
    if files is not None:
        console.print(
            f"{files['case']}: {files['first_epoch_images_per_second']:,} images/s in the first epoch, then "
            f"{files['images_per_second']:,}; peer: {_rate(files['peer_images_per_second'])}",
            highlight=False,
        )


def _rate(images_per_second: int | None) -> str:
    """A rate as text; the peer has none where it is not installed."""
    return "not installed" if images_per_second is None else f"{images_per_second:,}"


def measure(name: str, case: dict[str, Any], batch_size: int, steps: int) -> dict[str, Any]:
    """One row of the table."""
    shape = (batch_size * (steps + 3), case["channels"], case["image_size"], case["image_size"])
    images = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    settings = Settings.of(**case, epochs=1, batch_size=batch_size, probe_images=0, accelerator="cpu")
    others = {"network": network_step(settings), "loss": loss_step(settings), **peer_step(settings)}
    with tempfile.TemporaryDirectory() as folder:
        turns = TakeTurns(others, steps)
        train(
            settings.replace(out=f"{folder}/run"), data=ArrayData(images, name="noise"), quiet=True, callbacks=[turns]
        )
    medians = {who: statistics.median(times) for who, times in turns.seconds.items()}
    rounds = [ours / bare for ours, bare in zip(turns.seconds["kvicreg"], turns.seconds["network"], strict=True)]
    return {
        "case": name,
        "kvicreg_ms": round(1e3 * medians["kvicreg"], 1),
        "network_ms": round(1e3 * medians["network"], 1),
        "ratio": round(statistics.median(rounds), 3),
        "ratio_quartiles": [round(q, 3) for q in statistics.quantiles(rounds, n=4)[::2]],
        "loss_ms": round(1e3 * medians["loss"], 1),
        "loss_share": round(medians["loss"] / medians["kvicreg"], 4),
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


def network_step(settings: Settings) -> Callable[[], None]:
    """Forward, backward and optimizer of encoder and projector on ready tensors, with a linear loss."""
    step, shape = network_and_step(settings), _batch_shape(settings)
    ready = [torch.randn(shape).to(memory_format=torch.channels_last) for _ in range(2)]
    slopes = torch.randn(shape[0], settings.model.projector.projector_outputs) / shape[0]
    return lambda: step(ready, lambda z1, z2: ((z1 + z2) * slopes).sum())


def loss_step(settings: Settings) -> Callable[[], None]:
    """The loss alone, forward and backward, on embeddings of two views."""
    criterion = KernelVICRegLoss("rbf")
    shape = (_batch_shape(settings)[0], settings.model.projector.projector_outputs)
    z1, z2 = (torch.randn(shape, requires_grad=True) for _ in range(2))
    return lambda: torch.autograd.backward(criterion(z1, z2), inputs=[z1, z2])


def peer_step(settings: Settings) -> dict[str, Callable[[], None]]:
    """A step of kornia's views and the published form of VICReg; nothing where kornia is not installed."""
    shape = _batch_shape(settings)
    try:
        views = kornia_views(view_config(settings.views.preset), *shape[1:3])
    except ImportError:
        return {}
    step, images = network_and_step(settings), torch.randint(0, 256, shape, dtype=torch.uint8)

    def peer() -> None:
        two = [views(images.float() / 255).to(memory_format=torch.channels_last) for _ in range(2)]
        step(two, published_vicreg)

    return {"peer": peer}


def _batch_shape(settings: Settings) -> tuple[int, int, int, int]:
    """The shape (b, c, h, w) of a batch; every case says what its images are."""
    side, channels, size = settings.data.image_size, settings.data.channels, settings.schedule.batch_size
    assert size is not None
    assert side is not None
    assert channels is not None
    return size, channels, side, side


def network_and_step(settings: Settings) -> Callable[[list[Tensor], Callable[[Tensor, Tensor], Tensor]], None]:
    """A step of encoder, projector and optimizer around any loss."""
    method = build_method(settings)
    method.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = settings.optimizer.build(method)

    def step(views: list[Tensor], loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        z1, z2 = (method.projector(method.encoder(view)) for view in views)
        optimizer.zero_grad()
        torch.autograd.backward(loss(z1, z2))
        optimizer.step()

    return step
