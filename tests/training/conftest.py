"""Small data and small models, so that a training run takes a second or two."""

from __future__ import annotations

import pytest
import torch

from kvicreg.data import ArrayData
from kvicreg.runs import Settings


@pytest.fixture
def tiny_data() -> ArrayData:
    """96 images 1x16x16 in 3 classes that differ in where their bright square is."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(96) % 3
    images = torch.randint(0, 60, (96, 1, 16, 16), generator=generator, dtype=torch.uint8)
    for i, label in enumerate(labels.tolist()):
        images[i, :, 5 * label : 5 * label + 5, 5 * label : 5 * label + 5] += 150
    return ArrayData(images, labels, name="squares", class_names=["a", "b", "c"])


@pytest.fixture
def tiny_config(tmp_path) -> Settings:
    return Settings.of(
        data="squares",
        out=str(tmp_path / "run"),
        views="digits",
        width=0.25,
        projector_hidden=32,
        projector_outputs=32,
        epochs=2,
        batch_size=32,
        spectrum_images=32,
        probe_images=60,
        log_every=2,
    )
