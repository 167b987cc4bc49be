"""kvicreg embed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from kvicreg.cli.errors import check_numbers
from kvicreg.cli.progress import progress_bar
from kvicreg.data.sources import ReadOptions
from kvicreg.storage import counted


def embed(
    run: Path,
    images: str,
    /,
    out: Path = Path("embeddings.npz"),
    split: str = "train",
    projector: bool = False,
    batch_size: int = 256,
    workers: int = 2,
    device: str = "auto",
    reading: Annotated[ReadOptions, tyro.conf.arg(name="")] = ReadOptions(),
) -> str:
    """Embed images with a trained encoder, to npz, parquet or csv.

    Examples:
        kvicreg embed runs/first images/ --out embeddings.npz
        kvicreg embed runs/first table.csv --split val --image-column file --out embeddings.parquet

    Args:
        run: run folder, or zoo:NAME, an encoder that comes with the package.
        images: data set by name, or images of your own: folder, archive, table, array, list, shards.
        out: file to write, ending in .npz, .parquet or .csv.
        split: train, val, test or unlabelled, where the images have splits.
        projector: the embeddings the loss saw, in place of the encoder's features.
        batch_size: images at a time.
        workers: processes that decode files.
        device: cpu, cuda, or auto.
        reading: how images of your own are read; by default as in training.
    """
    check_numbers(batch_size=batch_size)
    check_numbers(0, workers=workers)
    from kvicreg.evaluation.embed import embed as write

    with progress_bar() as progress:
        count, width = write(
            run, images, out, split=split, projector=projector, batch_size=batch_size, workers=workers, device=device,
            say=lambda line: print(line, file=sys.stderr, flush=True), progress=progress, **reading.given(),
        )  # fmt: skip
    return f"{counted(count, 'embedding')} of width {width}: {out}"
