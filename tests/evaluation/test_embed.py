"""Embeddings on disk are the encoder's, one row per readable image, in each format."""

from __future__ import annotations

import csv
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from kvicreg.evaluation import embed as embed_module
from kvicreg.evaluation.embed import embed
from kvicreg.models import build_encoder
from kvicreg.runs import load_encoder, save_encoder


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    encoder = build_encoder("small-cnn", 1, 16, width=0.25)
    save_encoder(encoder, tmp_path / "run", image_size=16, mean=[0.3], std=[0.2])
    return tmp_path / "run"


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for i in range(7):
        Image.fromarray(generator.integers(0, 255, (16, 16), dtype=np.uint8)).save(folder / f"{i}.png")
    return folder


def expected(run, photos) -> np.ndarray:
    encoder = load_encoder(run)
    images = np.stack([np.asarray(Image.open(p)) for p in sorted(photos.glob("*.png"))])
    return encoder(encoder.preprocess(torch.from_numpy(images)[:, None])).detach().numpy()


def test_which_part_of_a_folder_is_embedded_is_told(run, photos, tmp_path):
    for part in ("train", "val"):
        shutil.copytree(photos, tmp_path / "parts" / part)
    lines = []
    embed(run, tmp_path / "parts", tmp_path / "e.npz", split="val", workers=0, say=lines.append)
    assert f"Of {tmp_path / 'parts'}, the images in val/; --split takes those in train/." in lines


def test_npz_holds_features_and_paths(run, photos, tmp_path):
    assert embed(run, photos, tmp_path / "e.npz", batch_size=3, workers=0) == (7, 128)
    with np.load(tmp_path / "e.npz") as file:
        np.testing.assert_allclose(file["embeddings"], expected(run, photos), rtol=1e-4, atol=1e-5)
        assert [p.split("/")[-1] for p in file["paths"]] == [f"{i}.png" for i in range(7)]
    assert {p.name for p in tmp_path.iterdir()} == {"run", "photos", "e.npz"}


@pytest.mark.parametrize("workers", [0, 1])
def test_images_are_read_by_as_many_processes_as_asked_for(run, photos, tmp_path, workers, monkeypatch):
    seen = []
    stream = embed_module.stream_features
    monkeypatch.setattr(embed_module, "stream_features", lambda *a, **k: seen.append(k["workers"]) or stream(*a, **k))
    embed(run, photos, tmp_path / "e.npz", workers=workers)
    assert seen == [workers]


def test_csv_and_parquet_hold_the_same_rows(run, photos, tmp_path):
    embed(run, photos, tmp_path / "e.csv", batch_size=3, workers=0)
    with open(tmp_path / "e.csv") as file:
        rows = list(csv.DictReader(file))
    values = np.array([[float(row[f"f{j}"]) for j in range(128)] for row in rows])
    np.testing.assert_allclose(values, expected(run, photos), rtol=1e-4, atol=1e-5)
    parquet = pytest.importorskip("pyarrow.parquet")
    embed(run, photos, tmp_path / "e.parquet", batch_size=3, workers=0)
    table = parquet.read_table(tmp_path / "e.parquet").to_pydict()
    assert table["image"] == [row["image"] for row in rows]
    np.testing.assert_allclose(np.array(table["embedding"]), values, rtol=1e-4, atol=1e-5)


def test_a_file_that_cannot_be_read_has_no_row(run, photos, tmp_path):
    (photos / "3.png").write_bytes(b"not a picture")
    assert embed(run, photos, tmp_path / "e.npz", workers=0)[0] == 6
    with np.load(tmp_path / "e.npz") as file:
        assert not any(p.endswith("3.png") for p in file["paths"])


def test_an_unknown_format_is_an_error(run, photos, tmp_path):
    with pytest.raises(ValueError, match=r"\.npz, \.parquet or \.csv"):
        embed(run, photos, tmp_path / "e.txt")


def test_labels_go_along_where_they_are_known(run, tmp_path):
    embed(run, "mnist-small", tmp_path / "e.npz", split="test")
    with np.load(tmp_path / "e.npz") as file:
        assert file["labels"].shape == file["index"].shape == (2000,)
        labels = file["labels"].tolist()
    embed(run, "mnist-small", tmp_path / "e.csv", split="test")
    with open(tmp_path / "e.csv") as file:
        assert [int(row["label"]) for row in csv.DictReader(file)] == labels
    parquet = pytest.importorskip("pyarrow.parquet")
    embed(run, "mnist-small", tmp_path / "e.parquet", split="test")
    assert parquet.read_table(tmp_path / "e.parquet").to_pydict()["label"] == labels


@pytest.mark.parametrize(
    ("mode", "side", "told"),
    [("RGB", 40, "colour made grey; 40x40 pixels resized to 16x16"), ("RGB", 16, "colour made grey"), ("L", 16, None)],
)
def test_images_that_are_unlike_the_encoders_are_told(run, tmp_path, mode, side, told):
    lines: list[str] = []
    (tmp_path / "own").mkdir()
    for number in range(3):
        Image.new(mode, (side, side)).save(tmp_path / "own" / f"{number}.png")
    embed(run, tmp_path / "own", tmp_path / "e.npz", workers=0, say=lines.append)
    expected = [] if told is None else [f"The encoder is of 16x16 grey images: {told}."]
    assert [line for line in lines if line.startswith("The encoder")] == expected
