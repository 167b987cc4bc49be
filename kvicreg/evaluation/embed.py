"""Embeddings of any images by a trained encoder, streamed to npz, parquet or csv."""

from __future__ import annotations

import csv
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kvicreg.data import ImageData, load
from kvicreg.data.images import kind_of
from kvicreg.data.loading import SPLITS
from kvicreg.evaluation.data import adapted, reading_for
from kvicreg.measures.features import choose_device, stream_features
from kvicreg.models import PretrainedEncoder
from kvicreg.runs import load_encoder
from kvicreg.storage import counted, replacing

Rows = tuple[np.ndarray, np.ndarray]  # features (k, q), indices of the samples (k,)


def embed(
    run: str | Path,
    images: str | Path,
    out: str | Path,
    *,
    split: str = "train",
    projector: bool = False,
    batch_size: int = 256,
    workers: int = 2,
    device: str = "auto",
    say: Callable[[str], None] = lambda _: None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
    **reading: Any,
) -> tuple[int, int]:
    """Write one row per image: its file (or index), its label where known, its features. Memory holds one batch.

    Args:
        run: run folder with the encoder.
        images: data set by name, or images of one's own, as `load` takes them.
        out: file to write: .npz, .parquet or .csv.
        split: of the images, where they have splits.
        projector: the embeddings the loss saw, in place of the encoder's features.
        say: is given what is to be told of the images: their classes, files that are left out or can't be read.
        progress: is called with what is being done, how many images are done and how many there are.
        reading: how images of one's own are read, by the names of `ReadOptions`; by default as in training.

    Returns:
        How many images were embedded, and the width of the features.
    """
    out = Path(out)
    writers = {".npz": _write_npz, ".parquet": _write_parquet, ".csv": _write_csv}
    if out.suffix not in writers:
        raise ValueError(f"out must end in .npz, .parquet or .csv, got {str(out)!r}")
    encoder = load_encoder(run, projector=projector, device=choose_device(device))
    data = images_for(encoder, images, split, **reading)
    others = [name for name in SPLITS if name != split and (Path(images) / name).is_dir()]
    notes = [f"Of {images}, the images in {split}/; --split takes those in {' or '.join(others)}/."] if others else []
    if changes := adapted(load(images, split, **reading_for(encoder.description, images, reading)), data.shape):
        notes.append(f"The encoder is of {kind_of(data.shape)}: {'; '.join(changes)}.")
    for note in [*notes, *data.notes]:
        say(note)
    out.parent.mkdir(parents=True, exist_ok=True)
    batches = stream_features(encoder, data, batch_size=batch_size, workers=workers)
    rows = _readable(batches, lambda done: progress("embedding", done, len(data)))
    with replacing(out) as temporary:
        count = writers[out.suffix](temporary, rows, data, encoder.feature_dim)
    if data.unreadable:
        say(f"{counted(len(data.unreadable), 'file')} could not be read and got no row, such as {data.unreadable[0]}")
    return count, encoder.feature_dim


def images_for(
    encoder: PretrainedEncoder,
    source: str | Path,
    split: str = "train",
    *,
    root: str | Path | None = None,
    **reading: Any,
) -> ImageData:
    """The images of a source in the size and channels that an encoder takes.

    They are read as those that the encoder was trained on, where `reading` says nothing else.
    """
    reading = reading_for(encoder.description, source, reading)
    channels = encoder.mean.shape[1]
    return load(source, split, root=root, image_size=encoder.image_size, channels=channels, **reading)


def _readable(batches: Iterable[tuple[Tensor, Tensor]], progress: Callable[[int], None]) -> Iterator[Rows]:
    """Features of every readable image, in order; an unreadable file, which another image stands for, has no row."""
    start = 0
    for features, samples in batches:
        indices = torch.arange(start, start + len(samples))
        start += len(samples)
        progress(start)
        readable = samples == indices
        if readable.any():
            yield features[readable].numpy(), indices[readable].numpy()


def _names(data: ImageData, indices: np.ndarray) -> list[str]:
    return [str(i) if data.paths is None else str(data.paths[i]) for i in indices]


def _labels(data: ImageData, indices: np.ndarray) -> np.ndarray | None:
    return None if data.labels is None else data.labels.numpy()[indices]


def _write_npz(path: Path, rows: Iterator[Rows], data: ImageData, width: int) -> int:
    """Arrays `embeddings` (n, q), `paths` or `index` (n,), `labels` (n,), all of them through files, not memory."""
    order, count = np.empty(len(data), dtype=np.int64), 0  # at once: many small arrays would scatter the heap
    with tempfile.TemporaryFile(dir=path.parent) as raw:  # without a name: gone with the process, however it ends
        for features, indices in rows:
            raw.write(np.ascontiguousarray(features, dtype="<f4").tobytes())
            order[count : count + len(indices)] = indices
            count += len(indices)
        raw.seek(0)
        order = order[:count]
        with zipfile.ZipFile(path, "w", allowZip64=True) as archive:
            blocks = iter(lambda: raw.read(1 << 24), b"")
            _member(archive, "embeddings", "<f4", (len(order), width), blocks)
            if (labels := _labels(data, order)) is not None:
                _member(archive, "labels", "<i8", labels.shape, [labels.astype("<i8").tobytes()])
            if data.paths is None:
                _member(archive, "index", "<i8", order.shape, [order.astype("<i8").tobytes()])
            else:  # fixed width: names of a few thousand files at a time
                kind = f"<U{max((len(str(data.paths[i])) for i in order.tolist()), default=1)}"
                parts = np.array_split(order, len(order) // 4096 + 1)
                _member(archive, "paths", kind, order.shape, (np.array(_names(data, p), kind).tobytes() for p in parts))
    return len(order)


def _member(archive: zipfile.ZipFile, name: str, kind: str, shape: tuple[int, ...], blocks: Iterable[bytes]) -> None:
    """Write an array into an npz file from its bytes, block by block."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        header = {"descr": kind, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(member, header)
        for block in blocks:
            member.write(block)


def _write_csv(path: Path, rows: Iterator[Rows], data: ImageData, width: int) -> int:
    count, labelled = 0, data.labels is not None
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *(["label"] if labelled else []), *(f"f{j}" for j in range(width))])
        for features, indices in rows:
            labels = _labels(data, indices)
            for i, (name, row) in enumerate(zip(_names(data, indices), features, strict=True)):
                writer.writerow([name, *([] if labels is None else [labels[i]]), *(f"{v:.7g}" for v in row)])
            count += len(indices)
    return count


def _write_parquet(path: Path, rows: Iterator[Rows], data: ImageData, width: int) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError(".parquet needs the package pyarrow: pip install pyarrow, or write .npz") from error
    columns = [("image", pa.string())] + ([("label", pa.int64())] if data.labels is not None else [])
    schema = pa.schema([*columns, ("embedding", pa.list_(pa.float32(), width))])
    count = 0
    with pq.ParquetWriter(path, schema) as writer:
        for features, indices in rows:
            flat = pa.array(features.reshape(-1), pa.float32())
            cells: list[Any] = [pa.array(_names(data, indices))]
            if (labels := _labels(data, indices)) is not None:
                cells.append(pa.array(labels))
            cells.append(pa.FixedSizeListArray.from_arrays(flat, width))
            writer.write_table(pa.Table.from_arrays(cells, schema=schema))
            count += len(indices)
    return count
