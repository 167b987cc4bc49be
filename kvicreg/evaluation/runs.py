"""A run folder, opened with clear sentences for what may be wrong with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kvicreg.data import ImageData, Views, load, view_config
from kvicreg.data.catalogue import DATA_SETS
from kvicreg.models import PretrainedEncoder, load_encoder
from kvicreg.storage import read_yaml


@dataclass(frozen=True)
class Run:
    """What evaluation needs of a run: its settings, and a hash of its encoder's weights."""

    path: Path
    config: dict[str, Any]
    description: dict[str, Any]  # encoder.json
    encoder_hash: str

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def channels(self) -> int:
        return len(self.description["mean"])

    @property
    def image_size(self) -> int:
        return int(self.description["image_size"])

    def encoder(self, *, projector: bool = False, device: str | torch.device = "cpu") -> PretrainedEncoder:
        """The trained encoder in eval mode."""
        return load_encoder(self.path, projector=projector, device=device)

    def views(self) -> Views:
        """The random views of the run's training."""
        preset = str(self.config.get("views", "auto"))
        config = view_config(
            Path(str(self.config["data"])).name if preset == "auto" else preset, self.config.get("view") or None
        )
        return Views(config, size=self.image_size, mean=self.description["mean"], std=self.description["std"])


def open_run(path: str | Path) -> Run:
    """Check that a folder is a finished run and read its descriptions."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no run folder {path}")
    if not path.is_dir() or not (path / "config.yaml").is_file():
        raise ValueError(f"{path} is not a run folder: it has no config.yaml (kvicreg train writes one)")
    for name in ("encoder.json", "encoder.safetensors"):
        if not (path / name).is_file():
            raise ValueError(f"{path} has no {name}: its training has not finished; resume it with kvicreg train")
    config = read_config(path / "config.yaml")
    try:
        description = json.loads((path / "encoder.json").read_text())
        missing = [
            key for key in ("architecture", "feature_dim", "image_size", "mean", "std") if key not in description
        ]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: encoder.json is damaged ({error}); train the run again") from error
    if missing:
        raise ValueError(f"{path}: encoder.json lacks {', '.join(missing)}; it was not written by kvicreg")
    digest = hashlib.sha256((path / "encoder.safetensors").read_bytes()).hexdigest()
    return Run(path, config, description, digest)


def read_config(path: Path) -> dict[str, Any]:
    """config.yaml as a dictionary that names its data."""
    config = read_yaml(path)
    if not isinstance(config, dict) or not isinstance(config.get("data"), str):
        raise ValueError(f"{path} does not say which data the run was trained on: it was not written by kvicreg")
    return config


@dataclass(frozen=True)
class EvaluationData:
    """Train images (to fit probes) and test images (to score them), in the encoder's size, and how they got there."""

    name: str
    train: ImageData
    test: ImageData
    adaptation: str


def evaluation_data(run: Run, on: str | None = None, *, root: str | None = None, seed: int = 0) -> EvaluationData:
    """The run's own data or, for transfer, other data (`on`) brought to the encoder's channels and size."""
    source = on or str(run.config["data"])
    root = root or run.config.get("data_root")
    size, channels = run.image_size, run.channels
    train = load(source, "train", root=root, image_size=size, channels=channels)
    c, h, w = load(source, "train", root=root).shape
    notes = []
    if c != channels:
        notes.append("colour made grey" if channels == 1 else "grey repeated on 3 channels")
    if (h, w) != (size, size):
        notes.append(f"{h}x{w} pixels resized to {size}x{size}")
    try:
        test = load(source, "test", root=root, image_size=size, channels=channels)
    except ValueError:
        if source in DATA_SETS:
            raise
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
        cut = max(1, len(train) // 5)
        test, train = train.subset(order[:cut].sort().values), train.subset(order[cut:].sort().values)
        test.split = "test"
        notes.append(
            f"no test split: {cut} images (a fifth, seed {seed}) held out, though pretraining may have seen them"
        )
    if on is not None:
        notes.append("normalised as the encoder's own training data")
    return EvaluationData(train.name, train, test, "; ".join(notes) or "as they are")
