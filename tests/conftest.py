"""Fixtures that several folders of tests share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kvicreg.models import Projector, build_encoder
from kvicreg.runs import RunFolder, Settings, save_encoder

METRICS = [
    "epoch",
    "step",
    "loss",
    "invariance",
    "variance",
    "covariance",
    "effective_rank",
    "effective_rank_bound",
    "top_eigenvalue",
    "embedding_scale",
    "bandwidth",
    "learning_rate",
    "images_per_second",
    "probe_accuracy",
    "knn_accuracy",
    "warning",
]


def write_run(folder: Path, *, seed: int = 0, data: str = "digits", epochs: int = 4, **settings: Any) -> Path:
    """A run folder as training leaves it, with an untrained small encoder for 16 x 16 grey images."""
    torch.manual_seed(seed)
    encoder = build_encoder("small-cnn", 1, 16, width=0.25)
    projector = Projector(int(encoder.feature_dim), 32, 16, 2)
    save_encoder(encoder, folder, image_size=16, mean=[0.3], std=[0.37], data=data, projector=projector)
    run = RunFolder(folder)
    small = {"image_size": 16, "channels": 1, "width": 0.25, "views": "digits"}
    run.write_settings(Settings.of(**(small | {"data": data, "epochs": epochs, "seed": seed} | settings)))
    rng = np.random.default_rng(seed)
    rows = []
    for epoch in range(epochs):
        values = dict.fromkeys(METRICS, round(float(np.exp(-epoch) + 0.1 * rng.random()), 4))
        warning = "embeddings shrink" if epoch == 1 else ""
        rows.append(values | {"epoch": epoch, "step": 10 * epoch, "effective_rank_bound": 63, "warning": warning})
    run.write_metrics(rows)
    eigenvalues = np.sort(rng.random((epochs, 20)) ** np.linspace(6, 2, epochs)[:, None])[:, ::-1]
    run.write_spectra(np.arange(epochs), eigenvalues.astype(np.float32))
    return folder


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Path]:
    """`make_run(folder, seed=0, data="digits", ...)` writes a run folder in the format of training."""
    return write_run
