"""A whole evaluation of a small run: complete, repeatable, cached, honest about what is wrong with a folder."""

import json
import shutil
from importlib import metadata

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kvicreg.cli import main
from kvicreg.data import load
from kvicreg.evaluation import extract, paired_bootstrap
from kvicreg.evaluation.compare import comparison_table, load_scores, significance
from kvicreg.evaluation.evaluate import EvaluationOptions, evaluate
from kvicreg.evaluation.labelled import confusion
from kvicreg.evaluation.session import Session
from kvicreg.evaluation.subjects import subjects_of
from kvicreg.runs import RunFolder, load_encoder
from kvicreg.runs.results import read_results

QUICK = {"map_images": 0, "robustness_images": 60}


def whole(folder) -> EvaluationOptions:
    return EvaluationOptions(**QUICK, projector=True, groups=str(folder.parent / "groups.txt"))


@pytest.fixture(scope="module")
def run(tmp_path_factory, make_run):
    folder = make_run(tmp_path_factory.mktemp("runs") / "one")
    (folder.parent / "groups.txt").write_text("left\nright\n" * 180)
    evaluate(folder, whole(folder), command="kvicreg evaluate one")
    return folder


@pytest.fixture
def results(run):
    return read_results(run / "results.json")


def test_the_probes_accuracy_is_scikit_learns_on_the_same_features(run, results):
    encoder = load_encoder(run)
    sets = [load("digits", split, image_size=16) for split in ("train", "test")]
    x, y = ([extract(encoder, data).numpy() for data in sets], [data.labels.numpy() for data in sets])
    entry = results["subjects"]["encoder"]["linear_probe"]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=entry["settings"]["C"], max_iter=5000, tol=1e-7))
    assert entry["value"] == pytest.approx(model.fit(x[0], y[0]).score(x[1], y[1]), abs=0.001)


def test_every_measure_has_an_interval_and_a_unit_and_the_controls_are_there(results):
    assert set(results["subjects"]) == {"encoder", "raw pixels", "random encoder", "projector"}
    for measures in results["subjects"].values():
        assert {"linear_probe", "knn", "labels_1_percent", "labels_10_percent", "nmi", "ari"} <= set(measures)
        for entry in measures.values():
            assert entry["unit"]
            assert 0 <= entry["low"] <= entry["high"] <= 1
    assert results["command"] == "kvicreg evaluate one"
    assert results["versions"]["torch"] == metadata.version("torch")
    assert results["seed"] == 0
    assert "linear probe" in results["verdict"]
    assert results["subjects"]["encoder"]["sgd_probe"]["settings"]["epochs"] == 100


def test_the_confusion_matrix_counts_every_test_image(results):
    matrix = np.array(results["confusion"])
    assert matrix.sum() == 360
    assert matrix.trace() / 360 == pytest.approx(results["subjects"]["encoder"]["linear_probe"]["value"])
    assert confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0])) == [[1, 0], [1, 1]]


def test_groups_share_the_test_images_and_their_accuracy(results):
    groups = results["groups"]["groups"]
    assert [(group["name"], group["images"]) for group in groups] == [("left", 180), ("right", 180)]
    mean = sum(group["accuracy"]["value"] for group in groups) / 2
    assert mean == pytest.approx(results["subjects"]["encoder"]["linear_probe"]["value"])
    assert results["groups"]["gap"] == pytest.approx(
        abs(groups[0]["accuracy"]["value"] - groups[1]["accuracy"]["value"])
    )


@pytest.mark.slow
def test_everything_at_once_with_a_real_map(tmp_path, make_run):
    run = make_run(tmp_path / "run", epochs=1)
    options = EvaluationOptions(robustness_images=20, map_images=60, supervised=True, fine_tune=True)
    results = evaluate(run, options)
    assert "fine_tuning" in results["subjects"]["encoder"]
    assert "supervised" in results["against"]
    with np.load(run / "evaluation" / "map.npz") as arrays:
        assert arrays["points"].shape == (60, 2)
        assert arrays["thumbnails"].shape == (60, 16, 16, 1)


def test_the_supervised_control_trains_as_long_as_the_run(tmp_path, make_run, monkeypatch):
    epochs = []

    def record(encoder, data, views, **settings):
        epochs.append(settings["epochs"])
        return encoder, None

    monkeypatch.setattr("kvicreg.evaluation.subjects.train_with_labels", record)
    run = RunFolder(make_run(tmp_path / "run", epochs=7))
    subjects = {subject.name: subject for subject in subjects_of(Session(run, EvaluationOptions(supervised=True)))}
    subjects["supervised"].make()
    assert epochs == [7]


def test_robustness_starts_from_the_same_accuracy_for_every_shift(results):
    starts = {curve["accuracy"][0]["value"] for curve in results["robustness"]["curves"]["encoder"]}
    assert len(starts) == 1


def test_evaluating_twice_gives_the_same_numbers(run, results):
    evaluate(run, whole(run), command="kvicreg evaluate one")
    again = read_results(run / "results.json")
    for written in (results, again):
        assert written.pop("seconds")
        assert written.pop("finished")
    assert again == results


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """24 train and 10 test images in two classes, red and blue."""
    from PIL import Image

    root = tmp_path_factory.mktemp("data") / "colours"
    for split, count in (("train", 12), ("test", 5)):
        for label, colour in (("red", (250, 30, 20)), ("blue", (10, 20, 240))):
            folder = root / split / label
            folder.mkdir(parents=True)
            for k in range(count):
                Image.new("RGB", (40, 24), tuple(c - k for c in colour)).save(folder / f"{k}.png")
    return root


@pytest.fixture(scope="module")
def transfer(run, colours):
    return evaluate(run, EvaluationOptions(**QUICK, on=str(colours)))


def test_transfer_adapts_channels_and_size_and_says_so(run, transfer):
    assert transfer["data"]["shape"] == [1, 16, 16]
    assert "colour made grey" in transfer["data"]["adaptation"]
    assert "resized to 16x16" in transfer["data"]["adaptation"]
    assert read_results(run / "results-on-colours.json")["data"]["name"] == "colours"
    assert read_results(run / "results.json")["data"]["name"] == "digits", "the run's own results stay"


def test_transfer_probes_are_fitted_and_scored_on_the_other_data(run, transfer, colours):
    encoder = load_encoder(run)
    sets = [load(colours, split, image_size=16, channels=1) for split in ("train", "test")]
    x, y = ([extract(encoder, data).numpy() for data in sets], [data.labels.numpy() for data in sets])
    entry = transfer["subjects"]["encoder"]["linear_probe"]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=entry["settings"]["C"], max_iter=200))
    assert entry["value"] == pytest.approx(model.fit(x[0], y[0]).score(x[1], y[1]), abs=1e-9)
    assert (transfer["data"]["train_images"], transfer["data"]["test_images"]) == (24, 10)
    for measures in transfer["subjects"].values():
        assert measures["linear_probe"]["value"] == 1, (
            "red and blue are easily told apart; digits' classes are not them"
        )
        assert measures["labels_10_percent"]["settings"]["labels"] == 2
    assert transfer["confusion"] == [[5, 0], [0, 5]]


def test_a_folder_without_labels_is_described_without_accuracy(run, tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for k in range(20):
        Image.fromarray(rng.integers(0, 256, (16, 16), dtype=np.uint8)).save(tmp_path / f"{k}.png")
    results = evaluate(run, EvaluationOptions(**QUICK, on=str(tmp_path)))
    assert results["subjects"] == {"encoder": {}}
    assert "Without labels" in results["verdict"]
    assert "held out" in results["data"]["adaptation"]


def test_one_class_counts_as_no_labels(run, tmp_path, capsys):
    from PIL import Image

    (tmp_path / "photos" / "a").mkdir(parents=True)
    for k in range(20):
        Image.new("L", (16, 16), 10 * k).save(tmp_path / "photos" / "a" / f"{k}.png")
    few = ["--on", str(tmp_path / "photos"), "--robustness-images", "0", "--map-images", "0"]
    assert main(["evaluate", str(run), *few]) == 0
    assert "; all images are of one class, which counts as no labels." in capsys.readouterr().out
    results = read_results(RunFolder(run).results_path(str(tmp_path / "photos")))
    assert results["subjects"] == {"encoder": {}}
    assert results["diagnostics"]["class_variance_share"] is None
    assert results["data"]["classes"] is None


def test_files_that_can_not_be_read_are_told_on_the_screen(run, tmp_path, capsys):
    from PIL import Image

    for k in range(20):
        Image.new("L", (16, 16), 10 * k).save(tmp_path / f"{k}.png")
    (tmp_path / "20.png").write_text("no image")
    assert main(["evaluate", str(run), "--on", str(tmp_path), "--robustness-images", "0", "--map-images", "0"]) == 0
    assert f"1 file of {tmp_path.name} could not be read; " in capsys.readouterr().out


def test_a_test_split_that_can_not_be_read_is_told_and_not_replaced_by_a_part_of_training(run, tmp_path):
    from PIL import Image

    for name in ("train/a", "train/b", "test/a", "test/c"):
        (tmp_path / "own" / name).mkdir(parents=True)
        for k in range(10):
            Image.new("L", (16, 16), 20 * k).save(tmp_path / "own" / name / f"{k}.png")
    with pytest.raises(ValueError, match="test: these classes are not among those of training: c$"):
        evaluate(run, EvaluationOptions(**QUICK, on=str(tmp_path / "own")))


def test_comparison_of_runs_tells_significance_by_paired_bootstrap(run, tmp_path, make_run):
    other = make_run(tmp_path / "two", seed=5)
    evaluate(other, EvaluationOptions(**QUICK))
    best, differences = significance([run, other])
    worse = other if best == run else run
    scores = {r: torch.from_numpy(load_scores(r)["encoder|linear_probe"]) for r in (run, other)}
    assert differences[worse] == paired_bootstrap(scores[worse], scores[best])
    table = comparison_table([run, other])
    assert "best linear probe" in table
    assert "raw pixels" in table
    assert table.count("p = ") == 1


def test_runs_on_different_test_images_are_not_compared(run, tmp_path, make_run):
    other = make_run(tmp_path / "other", data="mnist-small", image_size=16)
    shutil.copytree(run / "evaluation", other / "evaluation")
    path = other / "evaluation" / "scores.npz"
    arrays = dict(np.load(path))
    np.savez(path, **(arrays | {"fingerprint": np.array("another")}))
    with pytest.raises(ValueError, match="different test images"):
        significance([run, other])


def damage_encoder(folder):
    (folder / "encoder.safetensors").write_bytes((folder / "encoder.safetensors").read_bytes()[:1000])


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (shutil.rmtree, "there is no run folder"),
        (lambda f: (f / "config.yaml").unlink(), "is not a run folder: it has no config.yaml"),
        (lambda f: (f / "config.yaml").write_text("a: [1,"), "config.yaml is damaged"),
        (lambda f: (f / "config.yaml").write_text("name: else\n"), "config.yaml: there is no setting 'name'"),
        (lambda f: (f / "encoder.json").write_text("{"), "encoder.json is damaged"),
        (lambda f: (f / "encoder.json").write_text("{}"), "encoder.json lacks architecture"),
        (lambda f: (f / "encoder.safetensors").unlink(), "its training has not finished"),
        (damage_encoder, "encoder.safetensors is damaged"),
    ],
)
def test_a_damaged_or_foreign_folder_gets_a_sentence(tmp_path, make_run, harm, sentence):
    folder = make_run(tmp_path / "run")
    harm(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        evaluate(folder, EvaluationOptions(**QUICK))


def test_foreign_results_get_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="evaluate it first"):
        read_results(tmp_path / "results.json")
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(ValueError, match="not written by kvicreg"):
        read_results(tmp_path / "results.json")
    (tmp_path / "results.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ValueError, match="format 99"):
        read_results(tmp_path / "results.json")
