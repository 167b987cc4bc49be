"""kvicreg bench loss | views | train | data."""

from __future__ import annotations

from pathlib import Path

from kvicreg.cli.errors import UsageError, check_numbers


def bench_loss(
    out: Path = Path("bench-loss"),
    sizes: tuple[str, ...] = (),
    scaling_sizes: tuple[str, ...] = (),
    kernels: tuple[str, ...] = ("linear", "polynomial", "rbf", "laplacian", "rq", "laplacian-l1"),
    approximations: tuple[str, ...] = ("rff:512", "nystrom:512"),
    repeats: int = 7,
    device: str = "auto",
    threads: int | None = None,
) -> str:
    """Time the loss, and its memory, beside VICReg as published and as others have it.

    Examples:
        kvicreg bench loss
        kvicreg bench loss --sizes 256x2048 512x1024 --kernels rbf laplacian --scaling-sizes 4096x512 8192x512
        kvicreg bench loss --sizes 512x1024 512x1024x8 --kernels vicreg rbf rbf-per-view mmcr

    Args:
        out: folder to write: bench-loss.json, bench-loss.csv, latency and memory figures.
        sizes: BATCHxWIDTH, or BATCHxWIDTHxVIEWS, for the exact kernels; a grid unless given.
        scaling_sizes: BATCHxWIDTH for RBF under the approximations; 2,048 to 65,536 unless given.
        kernels: linear, polynomial, rbf, laplacian, laplacian-l1, rq; rbf-per-view and linear-per-view (a spectrum
            for each view), rbf-median (a bandwidth without gradient), rbf-products (no eigensolver), rbf-features
            (1,024 random Fourier features); least-work (the products and the solve that none can spare); vicreg,
            mmcr, frossl, i-vne, coding-rate, corinfomax, lejepa, kerjepa, visreg.
        approximations: rff:FEATURES and nystrom:LANDMARKS.
        repeats: timings of each.
        device: cpu, cuda, or auto.
        threads: of torch; all unless given.
    """
    check_numbers(repeats=repeats, threads=threads)
    from kvicreg.benchmarks.loss import EXACT_SIZES, SCALING_SIZES, run

    if sizes and not scaling_sizes:
        chosen: tuple[str, ...] = ()
    else:
        chosen = scaling_sizes or SCALING_SIZES
    run(out, sizes or (() if scaling_sizes else EXACT_SIZES), chosen, kernels, approximations, repeats, device, threads)
    return f"Timings and figures: {out}"


def bench_views(out: Path = Path("bench-views.json"), batch_size: int = 256, repeats: int = 7, threads: int = 1) -> str:
    """Time the random views beside kornia's.

    Example:
        kvicreg bench views --out bench-views.json

    Args:
        out: file to write.
        batch_size: images per batch.
        repeats: timings of each.
        threads: of torch.
    """
    check_numbers(repeats=repeats, threads=threads, batch_size=batch_size)
    from kvicreg.benchmarks.views import run

    run(out, batch_size, repeats, threads)
    return f"Timings: {out}"


def bench_train(
    out: Path = Path("bench-train.json"), batch_size: int = 256, steps: int = 20, threads: int = 1, large: bool = False
) -> str:
    """Time a training step beside the network alone, the loss alone, and a loop of kornia and VICReg.

    Example:
        kvicreg bench train --out bench-train.json
        kvicreg bench train --large --batch-size 32 --steps 5

    Args:
        out: file to write.
        batch_size: images per batch.
        steps: timed steps of each.
        threads: of torch.
        large: ResNet-50 and ViT-S at 64 pixels in place of two small networks.
    """
    check_numbers(threads=threads)
    check_numbers(2, steps=steps, batch_size=batch_size)
    from kvicreg.benchmarks.train import run

    run(out, batch_size, steps, threads, large=large)
    return f"Timings: {out}"


def bench_data(
    out: Path = Path("bench-data.json"),
    images: int = 1_000_000,
    folder_images: int = 20_000,
    batch_size: int = 512,
    workers: int = 2,
    work: Path | None = None,
) -> str:
    """Read a million small images from shards: memory over an epoch, and images per second beside a folder.

    Example:
        kvicreg bench data --images 100000 --out bench-data.json

    Args:
        out: file to write; the figure lies beside it.
        images: in shards; a million need 3 GB of disk while it runs.
        folder_images: of them, in a folder of files.
        batch_size: images per batch.
        workers: processes that decode.
        work: where the images are written for the time being; the system's temporary folder unless given.
    """
    check_numbers(batch_size=batch_size)
    check_numbers(0, workers=workers)
    if min(images, folder_images) < batch_size:
        raise UsageError(
            f"images and folder_images must be at least batch_size, {batch_size}, got {images} and {folder_images}"
        )
    from kvicreg.benchmarks.data import run

    run(out, images, folder_images, batch_size, workers, work)
    return f"Memory and rates: {out}, {out.with_suffix('.png')}"
