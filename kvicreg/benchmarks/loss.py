"""Time and memory of the loss, forward and backward, beside pytorch-metric-learning's VICReg in the same run."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from kvicreg import KernelVICRegLoss, kernels, operators

EXACT_SIZES = (
    "256x256", "256x1024", "256x2048", "256x8192", "512x256", "512x1024", "512x2048",
    "1024x256", "1024x1024", "1024x2048", "2048x1024",
)  # fmt: skip
SCALING_SIZES = ("2048x1024", "8192x1024", "32768x1024", "65536x1024")
KERNELS: dict[str, Callable[[], kernels.Kernel]] = {
    "linear": kernels.Linear,
    "polynomial": kernels.Polynomial,
    "rbf": kernels.RBF,
    "laplacian": kernels.Laplacian,
    "laplacian-l1": lambda: kernels.Laplacian(norm=1),
    "rq": kernels.RationalQuadratic,
}
SECONDS_PER_SIZE = 20.0
"""Slow sizes are timed three times at least, and no more often than fits into this."""
PEER = "VICReg (pytorch-metric-learning)"


@dataclass(frozen=True)
class Row:
    """One measurement; `ratio` is to the peer at the same size, timed in turn with it."""

    batch: int
    width: int
    loss: str
    approximation: str
    milliseconds: float
    peak_mib: float
    peer_milliseconds: float
    peer_peak_mib: float
    ratio: float


def run(
    out: Path = Path("bench-loss"),
    sizes: Sequence[str] = EXACT_SIZES,
    scaling_sizes: Sequence[str] = SCALING_SIZES,
    kernel_names: Sequence[str] = ("linear", "polynomial", "rbf", "laplacian", "rq", "laplacian-l1"),
    approximations: Sequence[str] = ("rff:512", "nystrom:512"),
    repeats: int = 7,
    device: str = "auto",
    threads: int | None = None,
) -> list[Row]:
    """Measure every exact kernel at `sizes` and RBF under every approximation at `scaling_sizes`.

    Writes bench-loss.json, .csv and .md, and the figures latency and memory (.png, .svg) into the folder `out`.
    """
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    device = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    if threads:
        torch.set_num_threads(threads)
    cases = [(size, [(name, "exact") for name in kernel_names]) for size in map(_parse, sizes)]
    cases += [(size, [("rbf", name) for name in approximations]) for size in map(_parse, scaling_sizes)]
    for name in kernel_names:
        if name not in KERNELS:
            raise ValueError(f"unknown kernel {name!r}: the kernels are {', '.join(KERNELS)}")
    for name in approximations:
        _approximation(name)
    console = Console(soft_wrap=True)
    rows: list[Row] = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("measuring", total=len(cases))
        for (batch, width), losses in cases:
            progress.update(task, description=f"{batch} x {width}")
            rows += _measure(batch, width, losses, repeats, device)
            progress.advance(task)
    table = Table("b x p", "loss", "ms", "ratio", "MiB", "ratio", box=None, header_style="bold")
    for row in rows:
        name = row.loss if row.approximation == "exact" else f"{row.loss}, {row.approximation}"
        memory = f"{row.peak_mib:.1f}", f"{row.peak_mib / row.peer_peak_mib:.3f}"
        table.add_row(f"{row.batch} x {row.width}", name, f"{row.milliseconds:.1f}", f"{row.ratio:.3f}", *memory)
    console.print(table)
    console.print(f"Ratios are to {PEER}.")
    out.mkdir(parents=True, exist_ok=True)
    setting = {
        "what": "forward + backward of the loss; milliseconds are medians, peaks are of tensors beside the embeddings",
        "peer": PEER,
        "repeats": f"{repeats}, or at least 3 where they take more than {SECONDS_PER_SIZE:.0f} s",
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "spin_count": os.environ.get("GOMP_SPINCOUNT", "default"),
        "torch": torch.__version__,
        "slopes": {name: scaling_slopes(rows, name) for name in approximations if len(scaling_sizes) > 1},
    }
    (out / "bench-loss.json").write_text(json.dumps(setting | {"rows": [asdict(r) for r in rows]}, indent=2) + "\n")
    (out / "bench-loss.md").write_text(markdown(rows))
    with (out / "bench-loss.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    from kvicreg.benchmarks.loss_figures import draw

    draw(rows, out)
    return rows


def markdown(rows: Sequence[Row]) -> str:
    """Ratios of time to the peer, a line per size: the exact kernels, then the approximations."""
    exact = [row for row in rows if row.approximation == "exact"]
    names = list(dict.fromkeys(row.loss for row in exact))
    lines = [f"| b x p | VICReg, ms | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for size in dict.fromkeys((row.batch, row.width) for row in exact):
        of_size = {row.loss: row for row in exact if (row.batch, row.width) == size}
        peer = next(iter(of_size.values())).peer_milliseconds
        lines.append(f"| {size[0]} x {size[1]} | {peer:.0f} | {' | '.join(f'{of_size[n].ratio:.3f}' for n in names)} |")
    others = [row for row in rows if row.approximation != "exact"]
    names = list(dict.fromkeys(row.approximation for row in others))
    if names:
        titles = " | ".join(f"{name}, time / VICReg's | memory, MiB" for name in names)
        lines += ["", f"| b x p, RBF | VICReg, ms | {titles} |", "|---" * (2 * len(names) + 2) + "|"]
    for size in dict.fromkeys((row.batch, row.width) for row in others):
        of_size = {row.approximation: row for row in others if (row.batch, row.width) == size}
        cells = " | ".join(f"{of_size[n].ratio:.3f} | {of_size[n].peak_mib:.0f}" for n in names)
        peer = next(iter(of_size.values())).peer_milliseconds
        lines.append(f"| {size[0]} x {size[1]} | {peer:.0f} | {cells} |")
    return "\n".join(lines) + "\n"


def scaling_slopes(rows: Sequence[Row], approximation: str) -> dict[str, float]:
    """Slopes of time and peak memory over the batch size on log axes, by least squares."""
    chosen = [row for row in rows if row.approximation == approximation]
    x = torch.tensor([row.batch for row in chosen], dtype=torch.float64).log()
    slopes = {}
    for what in ("milliseconds", "peak_mib"):
        y = torch.tensor([getattr(row, what) for row in chosen], dtype=torch.float64).log()
        slopes[what] = round(float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()), 3)
    return slopes


def _measure(batch: int, width: int, losses: Sequence[tuple[str, str]], repeats: int, device: str) -> Iterator[Row]:
    from pytorch_metric_learning.losses import VICRegLoss as Peer

    generator = torch.Generator().manual_seed(0)
    views = [torch.randn(batch, width, generator=generator).to(device).requires_grad_() for _ in range(2)]
    peer = Peer()
    contenders: list[Callable[[], Tensor]] = [partial(peer, views[0], ref_emb=views[1])]
    for name, approximation in losses:
        criterion = KernelVICRegLoss(KERNELS[name](), approximation=_approximation(approximation))
        contenders.append(partial(criterion, *views))

    def step(loss: Callable[[], Tensor]) -> float:
        for view in views:
            view.grad = None
        start = time.perf_counter()
        loss().backward()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    for loss in contenders:
        step(loss)
    timings: list[list[float]] = []
    while len(timings) < repeats and (len(timings) < 3 or sum(map(sum, timings)) < SECONDS_PER_SIZE):
        timings.append([step(loss) for loss in contenders])  # in turn: all see the same machine
    medians = [statistics.median(column) * 1e3 for column in zip(*timings, strict=True)]
    peaks = []
    for loss in contenders:
        for view in views:
            view.grad = None  # or the step would begin by giving back what it has to hold in the end
        peaks.append(_peak(partial(step, loss), device))
    for i, (name, approximation) in enumerate(losses, 1):
        yield Row(
            batch, width, name, approximation, round(medians[i], 2), round(peaks[i], 2), round(medians[0], 2),
            round(peaks[0], 2), round(medians[i] / medians[0], 4),
        )  # fmt: skip


def _peak(step: Callable[[], object], device: str) -> float:
    """MiB that a step holds at most, beside what was there before it."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    with _quiet(), torch.profiler.profile(profile_memory=True) as profiler:
        step()
    held = most = 0
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most / 2**20


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the profiler's own messages, which it writes past Python to the standard error stream."""
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _parse(size: str) -> tuple[int, int]:
    try:
        batch, width = map(int, size.lower().split("x"))
    except ValueError:
        raise ValueError(f"a size is BATCHxWIDTH, for example 256x2048, got {size!r}") from None
    if batch < 2 or width < 1:
        raise ValueError(f"a size needs a batch of at least 2 and a width of at least 1, got {size!r}")
    return batch, width


def _approximation(name: str) -> operators.Approximation | None:
    kind, _, count = name.partition(":")
    if kind == "exact":
        return None
    if kind == "rff" and count.isdigit():
        return operators.RandomFourier(features=int(count))
    if kind == "nystrom" and count.isdigit():
        return operators.Nystrom(landmarks=int(count))
    raise ValueError(f"an approximation is rff:FEATURES or nystrom:LANDMARKS, got {name!r}")
