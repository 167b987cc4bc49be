"""What a run folder holds comes back as it was written, under the names that people find it by."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from kvicreg.runs import RunFolder, Settings


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
