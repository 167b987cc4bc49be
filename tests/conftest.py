"""Fixtures that several folders of tests share."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from kvicreg.models import Projector, build_encoder
from kvicreg.runs import save_encoder

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


def write_run(folder: Path, *, seed: int = 0, data: str = "digits", epochs: int = 4, **config: object) -> Path:
    """A run folder as training leaves it, with an untrained small encoder for 16 x 16 grey images."""
    torch.manual_seed(seed)
    encoder = build_encoder("small-cnn", 1, 16, width=0.25)
    projector = Projector(int(encoder.feature_dim), 32, 16, 2)
    save_encoder(encoder, folder, image_size=16, mean=[0.3], std=[0.37], data=data, projector=projector)
    settings = {"data": data, "image_size": 16, "channels": 1, "views": "digits", "epochs": epochs, "seed": seed}
    settings |= {"method": "kernel-vicreg", "kernel": "rbf", **config}
    (folder / "config.yaml").write_text("".join(f"{key}: {value}\n" for key, value in settings.items()))
    rng = np.random.default_rng(seed)
    with (folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, METRICS)
        writer.writeheader()
        for epoch in range(epochs):
            values = dict.fromkeys(METRICS, round(float(np.exp(-epoch) + 0.1 * rng.random()), 4))
            warning = "embeddings shrink" if epoch == 1 else ""
            writer.writerow(
                values | {"epoch": epoch, "step": 10 * epoch, "effective_rank_bound": 63, "warning": warning}
            )
    eigenvalues = np.sort(rng.random((epochs, 20)) ** np.linspace(6, 2, epochs)[:, None])[:, ::-1]
    np.savez(folder / "spectrum.npz", epochs=np.arange(epochs), eigenvalues=eigenvalues.astype(np.float32))
    return folder


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Path]:
    """`make_run(folder, seed=0, data="digits", ...)` writes a run folder in the format of training."""
    return write_run
