"""Images of more than 8 bits from files to an encoder and back: their range is recorded, and commands use it."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from kvicreg.cli import main
from kvicreg.runs import RunFolder, load_encoder

SMALL = ["--width", "0.25", "--pool", "1", "--projector-hidden", "16", "--projector-outputs", "16", "--epochs", "1"]


@pytest.fixture
def microscope(tmp_path):
    """Two classes of 12-bit images in 16-bit TIFF files."""
    rng = np.random.default_rng(0)
    for label, mean in (("dark", 600), ("light", 3000)):
        for split in ("train", "test"):
            folder = tmp_path / "images" / split / label
            folder.mkdir(parents=True)
            for i in range(12):
                values = rng.normal(mean, 300, (20, 20)).clip(0, 4095).astype(np.uint16)
                Image.fromarray(values).save(folder / f"{i}.tif")
    return tmp_path / "images"


def test_a_run_on_12_bit_images_records_their_range_and_can_be_evaluated(microscope, tmp_path, capsys):
    run = str(tmp_path / "run")
    train = ["train", "--data", str(microscope), "--image-size", "16", "--channels", "1", "--intensity", "0:4095"]
    assert main([*train, *SMALL, "--probe-images", "0", "--workers", "0", "--out", run]) == 0
    assert "more than 8 bits" in " ".join(capsys.readouterr().out.split())
    assert RunFolder(run).settings.flat()["intensity"] == "0:4095"
    assert load_encoder(run).description["intensity"] == "0:4095"
    assert (
        main(["embed", run, str(microscope), "--split", "test", "--out", str(tmp_path / "e.npz"), "--workers", "0"])
        == 0
    )
    assert main(["evaluate", run, "--robustness-images", "0", "--map-images", "0"]) == 0
    assert len(np.load(tmp_path / "e.npz")["embeddings"]) == 24
