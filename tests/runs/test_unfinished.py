"""The encoder of a run that has not finished is read out of its last or best checkpoint, and that is told."""

from __future__ import annotations

import logging

import pytest
import torch

from kvicreg import load_encoder, train
from kvicreg.cli import main
from kvicreg.data import ArrayData
from kvicreg.runs import RunFolder, Settings
from kvicreg.training.build import build_method


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory):
    """A run of mnist-small that was stopped after its first epoch and a step, and the encoder it had by then."""
    folder = tmp_path_factory.mktemp("runs") / "unfinished"
    settings = Settings.of(
        data="mnist-small", images=128, epochs=1, batch_size=32, width=0.25, projector_hidden=16, projector_outputs=16,
        probe_images=0, spectrum_images=32, out=str(folder),
    )  # fmt: skip
    train(settings, quiet=True)
    finished = load_encoder(folder)
    train(settings.replace(epochs=3, time_limit="0.001s"), quiet=True, resume=True)
    assert not RunFolder(folder).is_finished
    return folder, finished


def same(one, two):
    one, two = one.state_dict(), two.state_dict()
    return one.keys() == two.keys() and all(one[key].equal(two[key]) for key in one)


def test_the_last_checkpoint_stands_in_and_says_so(unfinished, caplog):
    folder, finished = unfinished
    with caplog.at_level(logging.WARNING):
        encoder = load_encoder(folder)
    assert f"{folder} has not finished: this is the encoder of its checkpoint last.ckpt, epoch 2, step 5" in caplog.text
    assert not same(encoder.encoder, finished.encoder)
    assert encoder(encoder.preprocess(torch.zeros(2, 1, 28, 28, dtype=torch.uint8))).shape[0] == 2
    assert not encoder.training
    assert load_encoder(folder, projector=True)(torch.zeros(2, 1, 28, 28)).shape == (2, 16)


def test_the_best_checkpoint_is_taken_where_it_is_wanted(unfinished):
    folder, finished = unfinished
    best = RunFolder(folder).checkpoint("best")
    assert same(load_encoder(folder, which="best").encoder, finished.encoder)
    assert same(load_encoder(best).encoder, finished.encoder)
    assert same(RunFolder.open(best).encoder().encoder, finished.encoder)
    assert RunFolder.open(best).path == folder
    assert RunFolder.open(best).description["checkpoint"] == "best.ckpt, epoch 1, step 4"
    assert RunFolder.open(best).encoder_hash != RunFolder.open(folder).encoder_hash


def test_a_new_run_starts_from_it(unfinished, caplog):
    folder, finished = unfinished
    settings = RunFolder(folder).settings
    method = build_method(settings.replace(init=str(folder), seed=5))
    assert same(method.encoder, load_encoder(folder).encoder)
    assert "has not finished" in caplog.text
    method = build_method(settings.replace(init=str(RunFolder(folder).checkpoint("best")), seed=5))
    assert same(method.encoder, finished.encoder)


@pytest.mark.parametrize("which", ["last", "best"])
def test_commands_take_it(unfinished, tmp_path, capsys, which, caplog):
    folder, _ = unfinished
    path = str(folder) if which == "last" else str(RunFolder(folder).checkpoint("best"))
    out = tmp_path / "embeddings.npz"
    assert main(["embed", path, "mnist-small", "--split", "test", "--out", str(out), "--workers", "0"]) == 0
    assert main(["export", path, "--format", "torch", "--out", str(tmp_path / "encoder.pt2")]) == 0
    assert caplog.text.count(f"{which}.ckpt") == 2


def test_without_a_checkpoint_it_is_said_what_to_do(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.write_settings(Settings())
    with pytest.raises(FileNotFoundError, match=r"no encoder.*and no checkpoint.*train --resume"):
        load_encoder(run.path)


def test_a_checkpoint_that_is_damaged_or_somebody_elses_is_named(unfinished, tmp_path):
    other = tmp_path / "model.ckpt"
    torch.save({"state_dict": {}}, other)
    with pytest.raises(ValueError, match=r"model\.ckpt.*no encoder of kvicreg"):
        load_encoder(other)
    other.write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match=r"model\.ckpt is damaged"):
        load_encoder(other)


def test_an_encoder_of_ones_own_is_asked_for(tmp_path):
    def module():
        encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 8))
        encoder.feature_dim = 8
        return encoder

    data = ArrayData(torch.randint(0, 256, (64, 1, 8, 8), dtype=torch.uint8))
    settings = Settings.of(out=str(tmp_path / "run"), batch_size=16, epochs=1, time_limit="0.001s", probe_images=0)
    train(settings, data=data, encoder=module(), quiet=True)
    with pytest.raises(ValueError, match="encoder=module"):
        load_encoder(tmp_path / "run")
    assert load_encoder(tmp_path / "run", encoder=module()).feature_dim == 8
