"""`embed` and `evaluate --on` take the flags by which `train` reads images, and read as in training without them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from source_files import COUNT, encoded, folder, name_of

from kvicreg.cli import main
from kvicreg.data.pixels import squared
from kvicreg.data.sources.base import ReadOptions
from kvicreg.evaluation.data import evaluation_data, reading_for
from kvicreg.evaluation.session import EvaluationOptions, Session
from kvicreg.models import build_encoder
from kvicreg.runs import RunFolder, Settings, load_encoder, save_encoder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An untrained encoder of colour images, which were letterboxed."""
    torch.manual_seed(0)
    place, means = tmp_path / "run", {"mean": [0.3] * 3, "std": [0.2] * 3}
    save_encoder(build_encoder("small-cnn", 3, 16, width=0.25), place, image_size=16, fit="letterbox", **means)
    RunFolder(place).write_settings(Settings.of(data="mnist-small"))
    return place


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder(tmp_path)
    rows = [f"{name_of(k)},{k % 2},{'val' if k > 8 else 'train'}" for k in range(COUNT)]
    (tmp_path / "t.csv").write_text("\n".join(["where,odd,split", *rows]))
    return tmp_path / "t.csv"


@pytest.mark.parametrize("split", ["val", "test"])
def test_embed_takes_the_flags_and_tells_what_it_took(
    run: Path, table: Path, tmp_path: Path, split: str, capsys
) -> None:
    out = tmp_path / "e.npz"
    words = ["embed", str(run), str(table), "--split", split, "--out", str(out), "--workers", "0", "--device", "cpu"]
    assert main(words) == 1
    assert "image_column" in capsys.readouterr().err
    assert main([*words, "--image-column", "where", "--label-column", "odd"]) == 0
    assert "images from column 'where', labels from column 'odd'" in capsys.readouterr().err
    assert np.load(out)["labels"].tolist() == [1, 0, 1]


def test_files_that_are_left_out_or_bad_are_told(run: Path, tmp_path: Path, capsys) -> None:
    photos = folder(tmp_path / "photos")
    (photos / "ant" / "x.heic").write_bytes(b"x")
    (photos / "ant" / "y.cr2").write_bytes(b"x")
    (photos / "bee" / "004.png").write_bytes(encoded(4)[:40])
    assert main(["embed", str(run), str(photos), "--out", str(tmp_path / "e.csv"), "--workers", "0"]) == 0
    err = capsys.readouterr().err
    assert "2 files are left out, no image that is read: 1 .cr2, 1 .heic" in err
    assert "1 file could not be read and got no row" in err


def test_other_images_are_read_as_those_of_training_were(run: Path, tmp_path: Path) -> None:
    photos = folder(tmp_path / "photos")
    description = load_encoder(run).description | {"intensity": "0:4095"}
    assert reading_for(description, photos, {}) == {"fit": "letterbox", "intensity": "0:4095"}
    assert reading_for(description, photos, {"fit": "crop"})["fit"] == "crop"
    assert reading_for(description, "mnist-small", {}) == {}
    np.save(tmp_path / "a.npy", np.zeros((4, 8, 8), np.uint8))
    assert reading_for(description, tmp_path / "a.npy", {}) == {"intensity": "0:4095"}
    data = evaluation_data(RunFolder(run), str(photos), reading={"class_level": "none"})
    assert (data.labelled, data.train.fit) == (False, "letterbox")
    with pytest.raises(ValueError, match=r"fit: the run's own images are read as in training; it goes with on"):
        evaluation_data(RunFolder(run), reading={"fit": "crop"})


def test_data_that_have_moved_are_told_to_come_from_the_settings(run: Path) -> None:
    folder = RunFolder(run)
    folder.write_settings(Settings.of(data="photos-that-have-moved"))
    with pytest.raises(
        ValueError, match=r"'photos-that-have-moved' is neither .*run/config.yaml names; --on takes others\)$"
    ):
        evaluation_data(RunFolder(run))


def test_an_evaluation_reads_as_it_is_told(run: Path, tmp_path: Path) -> None:
    photos = folder(tmp_path / "photos")
    options = EvaluationOptions(on=str(photos), reading=ReadOptions(fit="stretch", class_level="none"))
    data = Session(RunFolder(run), options).data
    assert (data.labelled, data.train.fit) == (False, "stretch")


@pytest.mark.parametrize("fit", ["crop", "letterbox", "stretch"])
@pytest.mark.parametrize("shape", [(40, 24), (24, 40), (16, 16), (7, 9)])
def test_preprocess_makes_squares_as_files_were(fit: str, shape: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels).resize(shape[::-1], Image.Resampling.BICUBIC)
    encoder = build_encoder("small-cnn", 3, 16, width=0.25)
    from kvicreg.models.pretrained import PretrainedEncoder

    description = {"feature_dim": 128, "image_size": 16, "mean": [0.0] * 3, "std": [1.0] * 3, "fit": fit}
    ours = PretrainedEncoder(encoder, None, description).preprocess(
        torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None]
    )
    theirs = torch.from_numpy(np.array(squared(picture, 16, fit))).permute(2, 0, 1) / 255
    assert ours.shape == (1, 3, 16, 16)
    assert float((ours[0] - theirs).abs().mean()) < 0.03  # centres of odd borders may differ by half a pixel
