"""What a run folder holds comes back as it was written, under the names that people find it by."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kvicreg.models import Projector, build_encoder
from kvicreg.models.encoder import IMAGENET
from kvicreg.runs import RunFolder, Settings, load_encoder, save_encoder, start
from kvicreg.runs.start import fill_with_start, start_normalization
from kvicreg.runs.stored import StoredEncoder, is_checkpoint


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.write_settings(Settings.of(epochs=3))
    return folder


def small(seed=0):
    torch.manual_seed(seed)
    return build_encoder("small-cnn", 1, 16, width=0.25)


def write_encoder(folder, **more):
    projector = Projector(128, 16, 8, 2)
    save_encoder(small(), folder, image_size=16, mean=[0.5], std=[0.25], projector=projector, **more)
    return projector


def test_a_folder_is_a_run_by_its_config(run, tmp_path):
    assert RunFolder.open(run.path).settings == Settings.of(epochs=3)
    assert (run.name, run.exists, run.is_finished) == ("run", True, False)
    assert run.settings.schedule.epochs == 3
    run.write_settings(Settings.of(epochs=4))
    assert run.settings.schedule.epochs == 4
    run.write_settings(Settings.of(epochs=3))
    assert repr(run) == f"RunFolder({str(run.path)!r})"
    with pytest.raises(FileNotFoundError, match="there is no run folder .*other"):
        RunFolder.open(tmp_path / "other")
    with pytest.raises(ValueError, match=r"is not a run folder: it has no config\.yaml \(kvicreg train writes one\)"):
        RunFolder.open(tmp_path)
    for which in ("last", "best"):
        checkpoint = run.path / "checkpoints" / f"{which}.ckpt"
        assert run.checkpoint(which) == checkpoint
        assert (RunFolder(checkpoint).path, RunFolder(checkpoint).which) == (run.path, which)
    assert RunFolder(run.path).which is None


def test_metrics_come_back_with_their_warnings(run):
    assert run.metrics().columns == {}
    first = {"epoch": 0, "loss": 0.123456789, "probe": math.nan, "warning": ""}
    run.write_metrics([first, {"epoch": 1, "loss": 2.5, "probe": 0.75, "warning": "collapse, near"}])
    text = (run.path / "metrics.csv").read_text()
    assert text == 'epoch,loss,probe,warning\n0,0.123457,,\n1,2.5,0.75,"collapse, near"\n'
    metrics = run.metrics()
    assert metrics.columns == {"epoch": [0, 1], "loss": [0.123457, 2.5], "probe": [None, 0.75]}
    assert metrics.warnings == ["epoch 1: collapse, near"]
    assert metrics.measured("probe") == [0.75]
    assert metrics.measured("nothing") == []
    (run.path / "metrics.csv").write_text("epoch,loss\n0,inf\n1,word\n")
    assert run.metrics().columns["loss"] == [None, None]
    (run.path / "metrics.csv").write_text("step,loss\n0,1\n")
    with pytest.raises(ValueError, match="has no column 'epoch'"):
        run.metrics()
    (run.path / "metrics.csv").write_bytes(b"epoch\n\xff\n")
    with pytest.raises(ValueError, match="metrics.csv is damaged"):
        run.metrics()
    (run.path / "metrics.csv").write_text("")
    assert run.metrics().columns == {}


def test_spectra_come_back_or_are_damaged(run):
    assert run.spectra() is None
    run.write_spectra(np.arange(2), np.ones((2, 5)))
    assert run.spectra()["eigenvalues"].shape == (2, 5)
    for epochs, values in (
        (np.arange(3), np.ones((2, 5))),
        (np.arange(2), np.ones(2)),
        (np.array(["a", "b"]), np.ones((2, 5))),
    ):
        run.write_spectra(epochs, values)
        with pytest.raises(ValueError, match="spectrum.npz is damaged: .* should be .-dimensional numbers, got"):
            run.spectra()
    run.write_spectra(np.arange(0), np.ones((0, 5)))
    assert run.spectra() is None
    np.savez(run.path / "spectrum.npz", epochs=np.arange(2))
    with pytest.raises(ValueError, match="spectrum.npz lacks eigenvalues"):
        run.spectra()


def test_files_have_the_names_that_people_find_them_by(run):
    assert run.results_path().name == "results.json"
    assert run.results_path("data/my photos!").name == "results-on-my-photos-.json"
    assert run.results_path("//").name == "results-on-data.json"
    assert run.arrays_path("scores") == run.path / "evaluation" / "scores.npz"
    assert run.arrays_path("map", "mnist") == run.path / "evaluation" / "map-on-mnist.npz"
    assert [run.export_path(kind).name for kind in ("onnx", "torch", "timm", "hf")] == [
        "encoder.onnx", "encoder.pt2", "encoder-timm", "encoder-hf",
    ]  # fmt: skip
    assert (run.page.name, run.figures.name, run.features) == (
        "report.html",
        "figures",
        run.path / "evaluation" / "features",
    )
    assert run.start == run.path / "start.safetensors"
    for name in ("results-on-b.json", "results-on-a.json", "results.json"):
        (run.path / name).write_text("{}")
    assert [path.name for path in run.transfer_paths()] == ["results-on-a.json", "results-on-b.json"]


def test_arrays_behind_results_come_back(run):
    assert run.arrays("scores") is None
    assert run.arrays("map", points=2) is None
    run.write_arrays("map", "mnist", points=np.ones((3, 2)))
    run.write_arrays("map", points=np.zeros((3, 2)))
    assert run.arrays("map")["points"].sum() == 0
    assert run.arrays("map", "mnist", points=2)["points"].sum() == 6
    with pytest.raises(ValueError, match="lacks labels"):
        run.arrays("map", labels=1)


def test_faults_are_kept_for_each_process(run):
    assert run.faults() == []
    paths = [run.write_fault(rank, images=np.ones(2)) for rank in (2, 0, 1)]
    assert [path.name for path in paths] == ["fault-2.npz", "fault.npz", "fault-1.npz"]
    assert run.faults() == [paths[1], paths[2], paths[0]]
    assert int(np.load(paths[0])["rank"]) == 2
    assert run.write_unreadable(["a.png", "b.png"]).read_text() == "a.png\nb.png\n"
    assert json.loads(run.write_replay({"step": 3}).read_text()) == {"step": 3}
    assert run.write_replay({}).name == "replay.json"
    assert run.write_demo({"a": 1}).name == "demo.json"


def test_criteria_and_selections_come_back(run):
    assert run.criteria(5) is run.selection() is None
    run.write_criteria(5, {"rank": 2.0}, np.arange(4).reshape(2, 2))
    assert run.criteria(5) == {"rank": 2.0}
    assert run.criteria(6) is None
    assert run.neighbours(5).tolist() == [[0, 1], [2, 3]]
    row = {"candidate": "rbf", "steps": 5, "criteria": {}, "error": None}
    assert run.write_selection({"criterion": "rank", "ranking": [row]}).name == "selection.json"
    assert run.selection() == {"criterion": "rank", "ranking": [row]}
    run.write_selection({"ranking": []})
    with pytest.raises(ValueError, match="selection.json is damaged or not written by kvicreg"):
        run.selection()


def test_a_folder_in_use_is_never_emptied_unasked(run, tmp_path):
    run.checkpoint("last").parent.mkdir()
    run.checkpoint("last").write_bytes(b"1")
    with pytest.raises(FileExistsError, match=r"exists. Continue it with --resume .*, replace it with --overwrite"):
        run.prepare(resume=False, overwrite=False)
    leftover = run.path / "checkpoints" / ".last.tmp"
    leftover.write_bytes(b"1")
    run.prepare(resume=True, overwrite=False)
    assert run.checkpoint("last").is_file()
    assert not leftover.exists()
    (run.path / "link").symlink_to(tmp_path)
    with run.lock("training"):
        run.prepare(resume=False, overwrite=True)
    assert not any(path.name != ".lock" for path in run.path.iterdir()), "a run killed here can begin once more"
    assert tmp_path.is_dir()
    (run.path / "photo.png").write_bytes(b"1")
    with pytest.raises(FileExistsError, match="is not a run folder, so --overwrite leaves it alone"):
        run.prepare(resume=False, overwrite=True)
    fresh = RunFolder(tmp_path / "fresh")
    fresh.path.mkdir()
    (fresh.path / ".hidden").write_text("")
    fresh.prepare(resume=False, overwrite=False)
    assert [path.name for path in fresh.path.iterdir()] == [".hidden"]


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
    stored.tell()
    assert caplog.messages == [
        f"{run.path} has not finished: this is the encoder of its checkpoint last.ckpt, epoch 2, step 7."
    ]
    write_encoder(run.path)
    caplog.clear()
    StoredEncoder(run.path).tell()
    assert caplog.messages == []
    StoredEncoder(run.path, "last").tell()
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
    with pytest.raises(FileNotFoundError, match="has no encoder.json with encoder.safetensors, and no checkpoint last"):
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
