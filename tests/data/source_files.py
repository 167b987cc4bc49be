"""Small images of three classes, twelve unless COUNT is changed, written as every kind of source."""

from __future__ import annotations

import csv
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.data.packing import pack

COUNT, CLASSES = 12, ["ant", "bee", "cat"]


def encoded(k: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (10, 8), (k, k, k)).save(file, "PNG")
    return file.getvalue()


def number_of(k: int) -> int:
    """The class of an image: as many of each, in order."""
    return k * len(CLASSES) // COUNT


def name_of(k: int) -> str:
    return f"{CLASSES[number_of(k)]}/{k:03}.png"


def folder(place: Path) -> Path:
    for k in range(COUNT):
        (place / name_of(k)).parent.mkdir(parents=True, exist_ok=True)
        (place / name_of(k)).write_bytes(encoded(k))
    return place


def zipped(place: Path) -> Path:
    with zipfile.ZipFile(place / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for k in range(COUNT):
            archive.writestr(f"photos/{name_of(k)}", encoded(k), zipfile.ZIP_STORED if k % 2 else None)
    return place / "photos.zip"


def tarred(place: Path) -> Path:
    with tarfile.open(place / "photos.tar", "w") as archive:
        for k in range(COUNT):
            entry = tarfile.TarInfo(f"./{name_of(k)}")
            entry.size = len(encoded(k))
            archive.addfile(entry, io.BytesIO(encoded(k)))
    return place / "photos.tar"


def listed(place: Path) -> Path:
    folder(place)
    lines = [f"{name_of(k)}\t{CLASSES[number_of(k)]}" for k in range(COUNT)]
    (place / "list.txt").write_text("\n".join(lines))
    return place / "list.txt"


def table(place: Path) -> Path:
    folder(place)
    with (place / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["id", "Label", "Path"])
        writer.writerows([k, CLASSES[number_of(k)], name_of(k)] for k in range(COUNT))
    return place / "table.csv"


def arrow_table(kind: str):
    pa = pytest.importorskip("pyarrow")
    images = [encoded(k) for k in range(COUNT)]
    if kind == "struct":
        images = [{"bytes": image, "path": None} for image in images]
    elif kind == "paths":
        images = [name_of(k) for k in range(COUNT)]
    return pa.table({"image": images, "label": [CLASSES[number_of(k)] for k in range(COUNT)]})


def parquet(place: Path, kind: str = "bytes") -> Path:
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(arrow_table(kind), place / "photos.parquet", row_group_size=5)
    return place / "photos.parquet"


def parquet_structs(place: Path) -> Path:
    return parquet(place, "struct")


def parquet_paths(place: Path) -> Path:
    folder(place)
    return parquet(place, "paths")


def saved(place: Path) -> Path:
    pa = pytest.importorskip("pyarrow")
    content = arrow_table("struct")
    numbers = pa.array([number_of(k) for k in range(COUNT)])
    content = content.set_column(1, "label", numbers)
    place = place / "saved"
    place.mkdir()
    files = []
    for part in (0, 1):
        files.append({"filename": f"data-{part:05}-of-00002.arrow"})
        with pa.ipc.new_stream(str(place / files[-1]["filename"]), content.schema) as writer:
            writer.write_table(content.slice(part * COUNT // 2, COUNT // 2), max_chunksize=4)
    (place / "state.json").write_text(json.dumps({"_data_files": files, "_split": None}))
    features = {"image": {"_type": "Image"}, "label": {"names": CLASSES, "_type": "ClassLabel"}}
    (place / "dataset_info.json").write_text(json.dumps({"features": features}))
    return place


def array(place: Path) -> Path:
    images = np.arange(COUNT, dtype=np.uint8)[:, None, None, None] * np.ones((1, 3, 8, 8), np.uint8)
    np.save(place / "photos.npy", images)
    np.save(place / "photos_labels.npy", np.array([CLASSES[number_of(k)] for k in range(COUNT)]))
    return place / "photos.npy"


def arrays(place: Path) -> Path:
    images = np.arange(COUNT, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 3), np.uint8)
    np.savez(place / "photos.npz", x_train=images, y_train=np.array([CLASSES[number_of(k)] for k in range(COUNT)]))
    return place / "photos.npz"


def tensors(place: Path) -> Path:
    images = torch.arange(COUNT, dtype=torch.uint8)[:, None, None, None].expand(COUNT, 3, 8, 8).contiguous()
    torch.save({"images": images, "labels": torch.tensor([number_of(k) for k in range(COUNT)])}, place / "photos.pt")
    return place / "photos.pt"


def shards(place: Path) -> Path:
    pack(folder(place / "photos"), place / "shards", shard_mb=1)
    return place / "shards"


def web_dataset(place: Path, count: int = 2) -> Path:
    """Tar files as others write them: no index, labels in members of their own."""
    place = place / "web"
    place.mkdir()
    for shard in range(count):
        with tarfile.open(place / f"part-{shard:03}.tar", "w") as archive:
            for k in range(shard * COUNT // count, (shard + 1) * COUNT // count):
                label = json.dumps({"label": CLASSES[number_of(k)], "id": k})
                for name, content in ((f"{k:04}.png", encoded(k)), (f"{k:04}.json", label.encode())):
                    entry = tarfile.TarInfo(name)
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))
    return place


MAKERS = [
    folder, zipped, tarred, listed, table, parquet, parquet_structs, parquet_paths, saved, array, arrays, shards,
    web_dataset,
]  # fmt: skip
