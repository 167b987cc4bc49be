"""An encoder goes to the hub and comes back as it was; the hub is a folder here."""

from __future__ import annotations

import shutil
from pathlib import Path

import huggingface_hub
import pytest
import torch

from kvicreg.runs import RunFolder, Settings, load_encoder
from kvicreg.runs.hub import pull, push
from kvicreg.training.run import train


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return train(
        Settings.of(
            width=0.25, pool=1, batch_size=32, max_steps=1, projector_hidden=16, projector_outputs=16, probe_images=0,
            spectrum_images=8, accelerator="cpu", out=str(tmp_path_factory.mktemp("runs") / "run"),
        ),
        quiet=True,
    )  # fmt: skip


class Folder:
    """A hub that is a folder: what `HfApi` and `snapshot_download` do, without a network."""

    def __init__(self, root: Path) -> None:
        self.root, self.private = root, {}

    def create_repo(self, name, *, private, exist_ok):
        self.private[name] = private
        (self.root / name).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)

    def snapshot_download(self, name, *, revision, allow_patterns, local_dir):
        if not (self.root / name).is_dir():
            raise FileNotFoundError(f"no such repository: {name}")
        Path(local_dir).mkdir(parents=True, exist_ok=True)
        for pattern in allow_patterns:
            for file in (self.root / name).glob(pattern):
                shutil.copy(file, local_dir)


def test_an_encoder_comes_back_as_it_went(run, tmp_path, monkeypatch):
    hub = Folder(tmp_path / "hub")
    assert push(run, "me/digits", api=hub) == "https://huggingface.co/me/digits"
    assert hub.private == {"me/digits": True}
    assert "28 pixels" in (tmp_path / "hub/me/digits/README.md").read_text()
    assert '\n  "image_size": 28,\n' in (tmp_path / "hub/me/digits/encoder.json").read_text(), "for people to read"
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub.snapshot_download)
    folder = pull("me/digits", tmp_path / "pulled")
    x = torch.randn(2, 1, 28, 28)
    for projector in (False, True):
        assert load_encoder(folder, projector=projector)(x).equal(load_encoder(run, projector=projector)(x))
    assert RunFolder.open(folder).settings.schedule.batch_size == 32
    with pytest.raises(ValueError, match="is not empty"):
        pull("me/digits", folder)
    with pytest.raises(OSError, match="me/nothing could not be fetched from the hub: .*no such repository"):
        pull("me/nothing", tmp_path / "other")


def test_home_folders_stay_at_home(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    config = RunFolder(copy).config
    config.write_text(config.read_text().replace("data: mnist-small", f"data: {Path.home()}/secret/images"))
    push(copy, "me/x", api=Folder(tmp_path / "hub"))
    pushed = (tmp_path / "hub/me/x" / config.name).read_text()
    assert "~/secret/images" in pushed
    assert f"{Path.home()}/" not in pushed


def test_a_run_under_way_and_a_hub_out_of_reach_are_sentences(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "copy")
    RunFolder(copy).remove_encoder()
    with pytest.raises(ValueError, match="has not finished"):
        push(copy, "me/x", api=Folder(tmp_path))

    class Unreachable:
        def create_repo(self, *_, **__):
            raise ConnectionError("no route to the hub")

    with pytest.raises(OSError, match="me/x could not be written on the hub: ConnectionError: no route to the hub"):
        push(run, "me/x", api=Unreachable())
