"""Every kind of source x train, resume, evaluate, embed and two processes: the same images make the same encoder.

The sources hold the same pixels and labels. One uninterrupted training on the folder is the reference; every source is
stopped after its first step, resumed, and must end with the same bits. KVICREG_EVERY_SOURCE=1 evaluates all of them,
and trains all of them in two processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import source_files
import torch
from source_files import MAKERS, folder, number_of, shards, tensors

import kvicreg
from kvicreg.evaluation.embed import embed
from kvicreg.evaluation.evaluate import EvaluationOptions, evaluate
from kvicreg.runs import RunFolder, Settings


def in_memory_store(place: Path) -> str:
    """Shards in an object store."""
    store = fsspec.filesystem("memory")
    for path in shards(place).iterdir():
        store.pipe(f"/matrix{place.name}/{path.name}", path.read_bytes())
    return f"memory://matrix{place.name}"


COUNT = 30
EVERY = [*MAKERS, tensors, in_memory_store]
EVALUATED = EVERY if os.environ.get("KVICREG_EVERY_SOURCE") else [folder, tensors, in_memory_store]
TWO_PROCESSES = EVERY[:-1] if os.environ.get("KVICREG_EVERY_SOURCE") else [shards]
SMALL: dict[str, Any] = {
    "encoder": "small-cnn", "width": 0.25, "pool": 1, "image_size": 8, "projector_layers": 2, "projector_hidden": 8,
    "projector_outputs": 8, "batch_size": 10, "epochs": 1, "workers": 0, "spectrum_images": 4, "probe_images": 0,
    "accelerator": "cpu", "views": "natural", "norm": "group", "warmup_epochs": 0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVICREG_DATA", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True, scope="module")
def _more_images() -> Iterator[None]:
    """As many as an evaluation needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_files, "COUNT", COUNT)
        yield


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    place = tmp_path_factory.mktemp("reference")
    settings = Settings.of(**SMALL, data=str(folder(place / "photos")), out=str(place / "run"))
    return weights(kvicreg.train(settings, quiet=True))


def weights(run: Path) -> dict[str, torch.Tensor]:
    return dict(kvicreg.load_encoder(run).state_dict())


def assert_equal_bits(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.mark.parametrize("maker", EVERY, ids=lambda maker: maker.__name__)
def test_train_resume_evaluate_embed(tmp_path: Path, maker: Any, reference: dict[str, torch.Tensor]) -> None:
    source = str(maker(tmp_path))
    settings = Settings.of(**SMALL, data=source, out=str(tmp_path / "run"), checkpoint_steps=1)
    run = kvicreg.train(settings.replace(max_steps=1), quiet=True)
    kvicreg.train(settings.replace(max_steps=3), quiet=True, resume=True)
    assert_equal_bits(weights(run), reference)
    if maker in EVALUATED:
        results = evaluate(run, EvaluationOptions.of(robustness_images=0, map_images=0, batch_size=8))
        assert results["data"]["train_images"] + results["data"]["test_images"] == COUNT
    count, width = embed(run, source, tmp_path / "e.npz", workers=0)
    rows = np.load(tmp_path / "e.npz")
    assert (count, rows["labels"].tolist()) == (COUNT, [number_of(k) for k in range(COUNT)])
    assert rows["embeddings"].shape == (COUNT, width)
    assert RunFolder(run).settings.data.source == source


@pytest.mark.slow
@pytest.mark.parametrize("maker", TWO_PROCESSES, ids=lambda maker: maker.__name__)
def test_two_processes_share_the_batches_of_one(tmp_path: Path, maker: Any) -> None:
    """In double precision: Adam's first steps turn the rounding of small gradients into steps of full length."""
    flags = {**SMALL, "data": str(maker(tmp_path)), "precision": "64-true"}
    one = kvicreg.train(Settings.of(**flags, out=str(tmp_path / "one")), quiet=True)
    flags |= {"out": tmp_path / "two", "devices": 2, "strategy": "ddp"}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    ran = subprocess.run(
        [sys.executable, "-m", "kvicreg", "train", *words], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    alone, both = weights(one), weights(tmp_path / "two")
    assert max(float((both[name] - alone[name]).abs().max()) for name in alone) < 1e-5
