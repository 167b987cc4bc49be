"""kvicreg embed."""

from __future__ import annotations

from pathlib import Path


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
) -> str:
    """Embed images with a trained encoder, to npz, parquet or csv.

    Example:
        kvicreg embed runs/first images/ --out embeddings.npz

    Args:
        run: run folder.
        images: folder of images, data set by name, or list file.
        out: file to write, ending in .npz, .parquet or .csv.
        split: split of the images, where they have splits.
        projector: the embeddings the loss saw, in place of the encoder's features.
        batch_size: images at a time.
        workers: processes that decode files.
        device: cpu, cuda, or auto.
    """
    from kvicreg.evaluation.embed import embed as write

    count, width = write(
        run, images, out, split=split, projector=projector, batch_size=batch_size, workers=workers, device=device
    )
    return f"{count:,} embeddings of width {width}: {out}"
