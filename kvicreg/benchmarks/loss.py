"""Time and memory of the loss, forward and backward, beside the fastest VICReg of others in the same run."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from kvicreg import KernelVICRegLoss, VICRegLoss, kernels, operators
from kvicreg.benchmarks.measure import SECONDS_PER_SIZE, measure, write_result
from kvicreg.benchmarks.peers import METRIC_LEARNING, PUBLISHED, peers
from kvicreg.kernels.distances import inner_products
from kvicreg.losses import (
    CodingRateLoss,
    CorInfoMaxLoss,
    FroSSLLoss,
    KerJEPALoss,
    LeJEPALoss,
    MMCRLoss,
    VISRegLoss,
    VNELoss,
)
from kvicreg.measures.features import choose_device
from kvicreg.operators.eigenvalues import eigenvalues

EXACT_SIZES = (
    "256x256", "256x1024", "256x2048", "256x8192", "512x256", "512x1024", "512x2048",
    "1024x256", "1024x1024", "1024x2048", "2048x1024",
)  # fmt: skip
SCALING_SIZES = ("2048x1024", "8192x1024", "32768x1024", "65536x1024")


class LeastWork(nn.Module):
    """What an exact shared spectrum can't spare: products between all views, one solve, and their gradients."""

    def forward(self, *views: Tensor) -> Tensor:
        batch = len(views[0])
        return eigenvalues(inner_products(torch.cat(views))[:batch, :batch]).sum()


LOSSES: dict[str, Callable[..., nn.Module]] = {
    "linear": partial(KernelVICRegLoss, "linear"),
    "polynomial": partial(KernelVICRegLoss, "polynomial"),
    "rbf": partial(KernelVICRegLoss, "rbf"),
    "laplacian": partial(KernelVICRegLoss, "laplacian"),
    "laplacian-l1": lambda **more: KernelVICRegLoss(kernels.Laplacian(norm=1), **more),
    "rq": partial(KernelVICRegLoss, "rq"),
    "rbf-per-view": partial(KernelVICRegLoss, "rbf", spectrum="per-view"),
    "linear-per-view": partial(KernelVICRegLoss, "linear", spectrum="per-view"),
    "rbf-median": lambda **more: KernelVICRegLoss(kernels.RBF("median"), **more),
    "rbf-products": partial(KernelVICRegLoss, "rbf", solver="products"),
    "rbf-features": partial(KernelVICRegLoss, "rbf", approximation=operators.RandomFourier(features=1024)),
    "least-work": LeastWork,
    "vicreg": VICRegLoss,
    "mmcr": MMCRLoss,
    "frossl": FroSSLLoss,
    "i-vne": VNELoss,
    "coding-rate": CodingRateLoss,
    "corinfomax": CorInfoMaxLoss,
    "lejepa": LeJEPALoss,
    "kerjepa": KerJEPALoss,
    "visreg": VISRegLoss,
}
"""Kernel VICReg by its kernel and what sets it apart, and the other losses of the package."""
PEERS = {
    PUBLISHED: "VICReg in the form of its published code (written here from the formula)",
    METRIC_LEARNING: "VICRegLoss of pytorch-metric-learning",
}


@dataclass(frozen=True)
class Row:
    """One measurement; `ratio` is to the faster of the peers at the same size, `peer`, timed in turn with it."""

    batch: int
    width: int
    loss: str
    approximation: str
    milliseconds: float
    peak_mib: float
    peer_milliseconds: float
    peer_peak_mib: float
    ratio: float
    peer: str = METRIC_LEARNING  # the only one of older files
    published_milliseconds: float | None = None
    metric_learning_milliseconds: float | None = None
    views: int = 2


def run(
    out: Path,
    sizes: Sequence[str],
    scaling_sizes: Sequence[str],
    kernel_names: Sequence[str],
    approximations: Sequence[str],
    repeats: int,
    device: str = "auto",
    threads: int | None = None,
) -> list[Row]:
    """Measure every exact kernel at `sizes` and RBF under every approximation at `scaling_sizes`.

    Writes bench-loss.json, .csv and .md, and the figures latency and memory (.png, .svg) into the folder `out`.
    """
    from rich.console import Console
    from rich.progress import Progress

    from kvicreg.benchmarks.loss_figures import draw

    device = str(choose_device(device))
    if threads:
        torch.set_num_threads(threads)
    cases = [(size, [(name, "exact") for name in kernel_names]) for size in map(_parse, sizes)]
    cases += [(size, [("rbf", name) for name in approximations]) for size in map(_parse, scaling_sizes)]
    for name in kernel_names:
        if name not in LOSSES:
            raise ValueError(f"unknown kernel or loss {name!r}: there are {', '.join(LOSSES)}")
    for name in approximations:
        _approximation(name)
    console = Console(soft_wrap=True)
    rows: list[Row] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("measuring", total=len(cases))
        for (batch, width, views), losses in cases:
            if not console.is_terminal:
                print(f"{batch} x {width} ...", file=sys.stderr, flush=True)
            progress.update(task, description=f"{batch} x {width}")
            rows += _measure(batch, width, losses, repeats, device, views)
            progress.advance(task)
    _show(rows, console)
    slopes = {name: scaling_slopes(rows, name) for name in approximations if len(scaling_sizes) > 1}
    _write(rows, out, {**_conditions(repeats, device), "slopes": slopes})
    draw(rows, out)
    return rows


def _show(rows: Sequence[Row], console: Any) -> None:
    """Print the table, the name of the peer beside each ratio."""
    from rich.table import Table

    table = Table("b x p", "loss", "ms", "ratio", "to", "MiB", "ratio", box=None, header_style="bold")
    for row in rows:
        name = row.loss if row.approximation == "exact" else f"{row.loss}, {row.approximation}"
        memory = f"{row.peak_mib:.1f}", f"{row.peak_mib / row.peer_peak_mib:.3f}"
        cost = f"{row.milliseconds:.1f}", f"{row.ratio:.3f}", row.peer
        table.add_row(_size(row), name, *cost, *memory)
    console.print(table)
    names = dict.fromkeys(row.peer for row in rows)
    console.print("Ratios are to the faster peer at each size: " + "; ".join(f"{n}: {PEERS[n]}" for n in names) + ".")


def _conditions(repeats: int, device: str) -> dict[str, Any]:
    """Under which conditions was measured what."""
    return {
        "what": "forward + backward of the loss; milliseconds are medians, peaks are of tensors beside the embeddings",
        "peer": "ratio and peer_* are to the faster of the peers at each size, which `peer` names",
        "peers": {name: PEERS[name] for name in peers()},
        "repeats": f"{repeats}, or at least 3 where they take more than {SECONDS_PER_SIZE:.0f} s",
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "spin_count": os.environ.get("GOMP_SPINCOUNT", "default"),
    }


def _write(rows: Sequence[Row], out: Path, conditions: dict[str, Any]) -> None:
    """Write bench-loss.json, .md and .csv."""
    of = ("kernels", "operators", "losses")
    write_result(out / "bench-loss.json", conditions, of, rows=[asdict(row) for row in rows])
    (out / "bench-loss.md").write_text(markdown(rows))
    with (out / "bench-loss.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def markdown(rows: Sequence[Row]) -> str:
    """Ratios of time to the faster peer, a line per size: the exact kernels, then the approximations."""
    exact = [row for row in rows if row.approximation == "exact"]
    names = list(dict.fromkeys(row.loss for row in exact))
    lines = [f"| b x p | VICReg, ms | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for title, of_size in _by_size(exact, "loss"):
        cells = " | ".join(f"{of_size[name].ratio:.3f}" if name in of_size else "" for name in names)
        lines.append(f"| {title} | {cells} |")
    others = [row for row in rows if row.approximation != "exact"]
    names = list(dict.fromkeys(row.approximation for row in others))
    if names:
        titles = " | ".join(f"{name}, time / VICReg's | memory, MiB" for name in names)
        lines += ["", f"| b x p, RBF | VICReg, ms | {titles} |", "|---" * (2 * len(names) + 2) + "|"]
    for title, of_size in _by_size(others, "approximation"):
        cells = " | ".join(f"{of_size[name].ratio:.3f} | {of_size[name].peak_mib:.0f}" for name in names)
        lines.append(f"| {title} | {cells} |")
    return "\n".join(lines) + "\n"


def _by_size(rows: Sequence[Row], key: str) -> Iterator[tuple[str, dict[str, Row]]]:
    """For each size its first two cells, the size and the peer's time, and its rows by `key`."""
    for size in dict.fromkeys(map(_size, rows)):
        of_size = {getattr(row, key): row for row in rows if _size(row) == size}
        first = next(iter(of_size.values()))
        yield f"{size} | {first.peer_milliseconds:.0f} ({first.peer})", of_size


def _size(row: Row) -> str:
    return f"{row.batch} x {row.width}" + (f", {row.views} views" if row.views != 2 else "")


def scaling_slopes(rows: Sequence[Row], approximation: str) -> dict[str, float]:
    """Slopes of time and peak memory over the batch size on log axes, by least squares."""
    chosen = [row for row in rows if row.approximation == approximation]
    x = torch.tensor([row.batch for row in chosen], dtype=torch.float64).log()
    slopes = {}
    for what in ("milliseconds", "peak_mib"):
        y = torch.tensor([getattr(row, what) for row in chosen], dtype=torch.float64).log()
        slopes[what] = round(float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()), 3)
    return slopes


def _measure(
    batch: int, width: int, losses: Sequence[tuple[str, str]], repeats: int, device: str, views: int = 2
) -> Iterator[Row]:
    """Time the losses, (kernel, approximation), and the peers in turn; a row for each of the losses.

    Peers take two views, however many the losses are given.
    """
    rivals = peers()
    contenders: dict[Any, Any] = dict(rivals)
    for name, approximation in losses:
        more = {} if approximation == "exact" else {"approximation": _approximation(approximation)}
        contenders[name, approximation] = LOSSES[name](**more)
    costs = measure(contenders, batch, width, repeats, device, dict.fromkeys(rivals, 2), views)
    fastest = min(rivals, key=lambda name: costs[name].milliseconds)
    peer = costs[fastest]
    times = {name: round(costs[name].milliseconds, 2) for name in rivals}
    for case in losses:
        cost = costs[case]
        yield Row(
            batch, width, *case, round(cost.milliseconds, 2), round(cost.peak_mib, 2), round(peer.milliseconds, 2),
            round(peer.peak_mib, 2), round(cost.milliseconds / peer.milliseconds, 4), fastest,
            times[PUBLISHED], times.get(METRIC_LEARNING), views,
        )  # fmt: skip


def _parse(size: str) -> tuple[int, int, int]:
    try:
        batch, width, views = map(int, [*size.lower().split("x"), "2"][:3])
    except ValueError:
        raise ValueError(f"a size is BATCHxWIDTH or BATCHxWIDTHxVIEWS, for example 256x2048, got {size!r}") from None
    if batch < 2 or width < 1 or views < 2:
        raise ValueError(f"a size needs a batch of at least 2, a width of at least 1 and two views, got {size!r}")
    return batch, width, views


def _approximation(name: str) -> operators.Approximation | None:
    kind, _, count = name.partition(":")
    if kind == "exact":
        return None
    if kind == "rff" and count.isdigit():
        return operators.RandomFourier(features=int(count))
    if kind == "nystrom" and count.isdigit():
        return operators.Nystrom(landmarks=int(count))
    raise ValueError(f"an approximation is rff:FEATURES or nystrom:LANDMARKS, got {name!r}")
