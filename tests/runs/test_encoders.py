"""The encoder of a run comes back with what is needed to use it, from its files or from a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from kvicreg.models import Projector, build_encoder
from kvicreg.models.encoder import IMAGENET
from kvicreg.runs import RunFolder, Settings, load_encoder, save_encoder, start
from kvicreg.runs.start import fill_with_start, start_normalization
from kvicreg.runs.stored import StoredEncoder, is_checkpoint


def small(seed=0):
    torch.manual_seed(seed)
    return build_encoder("small-cnn", 1, 16, width=0.25)


def write_encoder(folder, **more):
    projector = Projector(128, 16, 8, 2)
    save_encoder(small(), folder, image_size=16, mean=[0.5], std=[0.25], projector=projector, **more)
    return projector


def test_an_encoder_comes_back_with_what_is_needed_to_use_it(run):
    projector = write_encoder(run.path, data="mnist", intensity="0:4095", fit="letterbox")
    assert run.is_finished
    expected = {"image_size": 16, "mean": [0.5], "std": [0.25], "data": "mnist", "intensity": "0:4095"}
    assert run.description.items() >= (expected | {"fit": "letterbox", "feature_dim": 128}).items()
    assert run.description["projector"] == projector.description
    assert run.description["architecture"] == small().description
    for with_projector in (False, True):
        loaded = run.encoder(projector=with_projector)
        assert not loaded.training
        assert (loaded.projector is not None) == with_projector
        assert all(value.equal(loaded.encoder.state_dict()[name]) for name, value in small().state_dict().items())
    assert all(value.equal(loaded.projector.state_dict()[name]) for name, value in projector.state_dict().items())
    again, before = RunFolder(run.path), run.encoder_hash
    assert again.encoder_hash == before
    save_encoder(small(1), run.path, image_size=16, mean=[0.5], std=[0.25])
    assert RunFolder(run.path).encoder_hash != before
    assert RunFolder(run.path).description["fit"] == "crop"
    run.remove_encoder()
    assert [path.name for path in run.path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"image_size": 15}, "image_size 15"),
        ({"mean": [0.5, 0.5]}, "mean"),
        ({"std": [float("inf")]}, "std"),
        ({"feature_dim": 127}, "feature_dim 127"),
        ({"architecture": {"name": "small-cnn", "image_size": 0, "in_channels": 1}}, "got 0"),
        ({"architecture": {"name": "small-cnn", "image_size": 1 << 15, "in_channels": 1}, "image_size": 1 << 15}, ""),
    ],
)
def test_a_description_whose_parts_disagree_is_damaged(run, change, word):
    write_encoder(run.path)
    path = run.path / "encoder.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=f"encoder.json is damaged or not written by kvicreg .*{word}"):
        load_encoder(run.path)


def test_a_description_that_is_none_is_named(run):
    write_encoder(run.path)
    (run.path / "encoder.json").write_text("{}")
    with pytest.raises(ValueError, match="lacks architecture, feature_dim, image_size, mean, std; it was not written"):
        load_encoder(run.path)
    (run.path / "encoder.json").write_text("{")
    with pytest.raises(ValueError, match=r"encoder.json is damaged \(JSONDecodeError: .*\); train the run again"):
        load_encoder(run.path)


def test_the_weights_that_a_run_started_from_come_back(run):
    write_encoder(run.path)
    assert run.start_hash is None
    from kvicreg.models.weights import save_weights

    save_weights(small(5), run.start)
    start = RunFolder(run.path).starting_encoder()
    assert not start.training
    assert all(value.equal(start.encoder.state_dict()[name]) for name, value in small(5).state_dict().items())
    assert len(RunFolder(run.path).start_hash) == 64


def checkpoint(path, average=False):
    """A checkpoint as training writes it, of the encoder of seed 2, whose average is that of seed 3."""
    state = {f"method.encoder.{name}": value for name, value in small(2).state_dict().items()}
    state |= {f"method.projector.{name}": value for name, value in Projector(128, 16, 8, 2).state_dict().items()}
    if average:
        state |= {f"average.copies.0.{name}": value for name, value in small(3).state_dict().items()}
        state |= {f"average.copies.1.{name}": value for name, value in Projector(128, 16, 8, 2).state_dict().items()}
    about = {"architecture": small().description, "feature_dim": 128, "image_size": 16, "mean": [0.5], "std": [0.25]}
    path.parent.mkdir(exist_ok=True)
    torch.save({"state_dict": state, "encoder": about, "epoch": 1, "global_step": 7, "batches_done": 7}, path)


@pytest.mark.parametrize("average", [False, True])
def test_a_checkpoint_has_the_encoder_or_its_average(run, average, caplog):
    checkpoint(run.checkpoint("last"), average)
    stored = StoredEncoder(run.path)
    assert stored.description()["checkpoint"] == "last.ckpt, epoch 2, step 7"
    expected = small(3 if average else 2).state_dict()
    assert {name: value.tolist() for name, value in stored.weights().items()} == {
        k: v.tolist() for k, v in expected.items()
    }
    assert set(stored.weights("projector")) == set(Projector(128, 16, 8, 2).state_dict())
    assert stored.sha256() == RunFolder(run.path).encoder_hash
    stored.warn_if_unfinished()
    assert caplog.messages == [
        f"{run.path} has not finished: this is the encoder of its checkpoint last.ckpt, epoch 2, step 7."
    ]
    write_encoder(run.path)
    caplog.clear()
    StoredEncoder(run.path).warn_if_unfinished()
    assert caplog.messages == []
    StoredEncoder(run.path, "last").warn_if_unfinished()
    assert caplog.messages == [f"{run.path} by checkpoint last.ckpt, epoch 2, step 7."]
    assert all(
        value.equal(expected[k]) for k, value in load_encoder(run.path, which="last").encoder.state_dict().items()
    )


def test_weights_to_start_from_are_named_and_read_as_the_encoders_family_does(run, monkeypatch):
    monkeypatch.setattr(start, "start_from", lambda *given: given)
    write_encoder(run.path)
    family, encoder = SimpleNamespace(choice="resnet18", published=lambda: {"w": 1}), small()
    published = SimpleNamespace(pretrained=True, encoder=family)
    assert fill_with_start(encoder, published) == [
        (encoder, {"w": 1}, "the published weights of resnet18", family),
    ]
    init = SimpleNamespace(pretrained=False, encoder=family, init=str(run.path))
    [(filled, weights, source, options)] = fill_with_start(encoder, init)
    assert (filled, source, options) == (encoder, str(run.path), family)
    assert set(weights) == set(encoder.state_dict())


class Bomb:
    def __reduce__(self):
        return Path.touch, (Path("exploded"),)


def test_code_in_a_checkpoint_is_not_run_to_see_whose_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"batches_done": Bomb()}, tmp_path / "theirs.ckpt")
    assert not is_checkpoint(tmp_path / "theirs.ckpt")
    assert not Path("exploded").exists()


def test_checkpoints_are_known_wherever_they_lie(run, tmp_path):
    checkpoint(run.checkpoint("best"))
    elsewhere = tmp_path / "elsewhere.ckpt"
    elsewhere.write_bytes(run.checkpoint("best").read_bytes())
    assert StoredEncoder(elsewhere).folder == tmp_path
    assert StoredEncoder(elsewhere).checkpoint == elsewhere
    assert is_checkpoint(elsewhere)
    assert not is_checkpoint(run.config)
    assert not is_checkpoint(tmp_path / "none.ckpt")
    torch.save({"state_dict": {}}, tmp_path / "theirs.ckpt")
    assert not is_checkpoint(tmp_path / "theirs.ckpt")
    torch.save([1], tmp_path / "list.ckpt")
    assert not is_checkpoint(tmp_path / "list.ckpt")
    (tmp_path / "damaged.ckpt").write_text("no")
    assert not is_checkpoint(tmp_path / "damaged.ckpt")
    run.checkpoint("last").write_text("no")
    assert is_checkpoint(run.checkpoint("last")), "whoever reads it says that it is damaged"
    with pytest.raises(ValueError, match=r"last.ckpt is damaged"):
        StoredEncoder(run.path).description()
    with pytest.raises(ValueError, match=r"theirs.ckpt has no encoder of kvicreg"):
        StoredEncoder(tmp_path / "theirs.ckpt").description()
    with pytest.raises(FileNotFoundError, match="is not a run folder: it has no config.yaml and no encoder.json$"):
        StoredEncoder(tmp_path)
    write_encoder(run.path)
    assert StoredEncoder(run.path / "encoder.safetensors").checkpoint is None
    assert StoredEncoder(run.path / "encoder.safetensors").folder == run.path


def test_an_encoder_starts_from_a_run_a_file_or_nothing(run, tmp_path):
    write_encoder(run.path)
    torch.save(small(4).state_dict(), tmp_path / "theirs.pth")

    def filled(**model):
        settings = Settings.of(encoder="small-cnn", width=0.25, **model).model
        encoder = small(9)
        return fill_with_start(encoder, settings), encoder.blocks[0].weight, start_normalization(settings, 1)

    notes, weight, normalization = filled(init=str(run.path))
    assert notes == [f"Starts from {run.path}: 24 of 24 tensors, 100.0% of the encoder's numbers."]
    assert weight.equal(small().blocks[0].weight)
    assert normalization == ((0.5,), (0.25,))
    _, weight, normalization = filled(init=str(tmp_path / "theirs.pth"))
    assert weight.equal(small(4).blocks[0].weight)
    assert normalization is None
    notes, weight, normalization = filled()
    assert (notes, normalization) == ([], None)
    assert weight.equal(small(9).blocks[0].weight)
    resnet = Settings.of(encoder="resnet18", init=str(tmp_path / "theirs.pth")).model
    assert start_normalization(resnet, 3) == IMAGENET
    assert start_normalization(resnet, 1) == ((0.449,), (0.226,))
    assert start_normalization(resnet, 5) is None
    assert not Settings.of().model.has_start
    assert Settings.of(pretrained=True, encoder="hf:vit").model.has_start
