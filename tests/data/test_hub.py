"""hf:user/name: what Hugging Face's client has fetched is read as the files that it is, without a network too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from source_files import CLASSES, COUNT, arrow_table

from kvicreg.data import load

constants = pytest.importorskip("huggingface_hub.constants")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache as the client keeps it, and no network."""
    import pyarrow.parquet as pq

    repository = tmp_path / "datasets--somebody--insects"
    snapshot = repository / "snapshots" / ("a" * 40)
    (snapshot / "data").mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    pq.write_table(arrow_table("struct"), snapshot / "data" / "train-00000-of-00001.parquet")
    pq.write_table(arrow_table("struct").slice(0, 5), snapshot / "data" / "validation-00000-of-00001.parquet")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return snapshot


def test_a_data_set_that_has_been_fetched_is_read(offline: Path) -> None:
    for name in ("hf:somebody/insects", f"hf:somebody/insects@{'a' * 40}"):
        data = load(name)
        assert (data.name.partition("@")[0], len(data), data.class_names) == ("insects", COUNT, CLASSES)
        assert data.fetch(torch.tensor([7, 2]))[:, 0, 0, 0].tolist() == [7, 2]
    assert len(load("hf:somebody/insects", "test")) == len(load("hf:somebody/insects", "val")) == 5
    assert load("hf:somebody/insects", label_column="label").class_names == CLASSES


def test_without_a_network_there_is_a_sentence(offline: Path) -> None:
    with pytest.raises(ValueError, match=r"data: hf:somebody/other can't be had .* needs a network the first time"):
        load("hf:somebody/other")
    with pytest.raises(ValueError, match=r"hf:no such name! can't be had"):
        load("hf:no such name!")
