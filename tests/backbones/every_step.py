"""What every backbone is put through: a few steps, an interruption, embeddings, an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from kvicreg.data import ArrayData
from kvicreg.evaluation.evaluate import EvaluationOptions, evaluate
from kvicreg.measures.features import extract
from kvicreg.runs import RunFolder, Settings, load_encoder
from kvicreg.training.run import train


def images(side: int, count: int = 24) -> ArrayData:
    """Gratings of three directions under noise."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 3
    grid = torch.arange(side).float()
    wave = torch.stack([grid[:, None] + 0 * grid, grid + 0 * grid[:, None], grid + grid[:, None]])[labels]
    pixels = 128 + 80 * torch.sin(wave / 3)[:, None] + 30 * torch.randn(count, 3, side, side, generator=generator)
    return ArrayData(pixels.clamp(0, 255).to(torch.uint8), labels, name="gratings")


def settings(encoder: str, out: Path, **more: Any) -> Settings:
    return Settings.of(
        encoder=encoder, out=str(out), batch_size=8, epochs=1, projector_layers=2, projector_hidden=16,
        projector_outputs=16, probe_images=0, spectrum_images=8, accelerator="cpu", views="natural", **more,
    )  # fmt: skip


def put_through(encoder: str, tmp_path: Path, **more: Any) -> RunFolder:
    """Train at 64 pixels whole, and at 96 with an interruption; then embed and evaluate. Returns the run at 64."""
    run = RunFolder(train(settings(encoder, tmp_path / "run", **more), data=images(64), quiet=True))
    assert load_encoder(run.path).image_size == 64

    larger = images(96, 16)
    whole = train(settings(encoder, tmp_path / "whole", **more).replace(max_steps=2), data=larger, quiet=True)
    cut = settings(encoder, tmp_path / "cut", **more)
    train(cut.replace(max_steps=1), data=larger, quiet=True)
    train(cut.replace(max_steps=2), data=larger, quiet=True, resume=True)
    one, other = (load_file(folder / "encoder.safetensors") for folder in (whole, tmp_path / "cut"))
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one), "resuming is not bit for bit"

    features = extract(load_encoder(run.path), images(64))
    assert features.shape == (24, load_encoder(run.path).feature_dim)
    assert np.isfinite(features.numpy()).all()
    options = EvaluationOptions(robustness_images=0, map_images=0)
    results = evaluate(run.path, options, data=images(64), test=images(64, 24))
    assert {"linear_probe", "knn"} <= results["subjects"]["encoder"].keys()
    assert "random encoder" in results["subjects"]
    return run


def same_output(run: RunFolder, other: Any) -> None:
    """The run's features of normalized images are what `other` makes of them."""
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = load_encoder(run.path)(x)
        torch.testing.assert_close(other(x), expected, rtol=1e-5, atol=1e-5)
    assert expected.std() > 0
