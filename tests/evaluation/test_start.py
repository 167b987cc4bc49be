"""What pretraining adds: the encoder that a run started from is a control, and the verdict says if training helped."""

from functools import partial
from unittest.mock import patch

import pytest
import torch

from kvicreg.data import load
from kvicreg.evaluation import extract, knn, paired_bootstrap
from kvicreg.evaluation.compare import comparison_table, load_scores
from kvicreg.evaluation.evaluate import EvaluationOptions, evaluate
from kvicreg.evaluation.probes import sgd_probe
from kvicreg.evaluation.session import Session, Shared
from kvicreg.evaluation.subjects import subjects_of
from kvicreg.evaluation.supervised import fine_tuning
from kvicreg.models import build_encoder
from kvicreg.models.weights import save_weights
from kvicreg.runs import RunFolder, Settings
from kvicreg.runs.results import read_results
from kvicreg.training import train


def another_encoder(seed: int = 9) -> torch.nn.Module:
    torch.manual_seed(seed)
    return build_encoder("small-cnn", 1, 16, width=0.25)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, make_run):
    """Three runs, of which the first two started from the same weights, and the third from random ones."""
    root = tmp_path_factory.mktemp("runs")
    folders = [make_run(root / name, seed=seed) for seed, name in enumerate(("one", "two", "three"))]
    for folder in folders[:2]:
        save_weights(another_encoder(), RunFolder(folder).start)
    return folders


@pytest.fixture(scope="module")
def lines(runs):
    """What is told while the first two are evaluated one after the other, with fine-tuning in an epoch."""
    told, shared = [], Shared()
    short = patch("kvicreg.evaluation.labelled.sgd_probe", partial(sgd_probe, epochs=1))
    with short, patch("kvicreg.evaluation.labelled.fine_tuning", partial(fine_tuning, epochs=1)):
        for run, tune in ((runs[0], True), (runs[1], False)):
            evaluate(
                run,
                EvaluationOptions(map_images=0, robustness_images=0, fine_tune=tune),
                say=told.append,
                shared=shared,
            )
    return told


def test_the_starting_encoder_is_the_one_that_training_found(runs):
    stored = RunFolder(runs[0]).starting_encoder().encoder.state_dict()
    assert all(torch.equal(value, stored[name]) for name, value in another_encoder().state_dict().items())


def test_its_scores_are_those_of_the_weights_before_training(runs, lines):
    encoder = RunFolder(runs[0]).starting_encoder()
    train_data, test_data = (load("digits", split, image_size=16) for split in ("train", "test"))
    x, t = extract(encoder, train_data), extract(encoder, test_data)
    expected = knn(x, train_data.labels, t, test_data.labels).correct
    assert torch.equal(torch.from_numpy(load_scores(runs[0])["starting encoder|knn"]), expected)


def test_few_labels_and_fine_tuning_are_measured_for_every_encoder(runs, lines):
    results = read_results(runs[0] / "results.json")
    for name in ("encoder", "random encoder", "starting encoder"):
        assert {"labels_1_percent", "labels_10_percent", "fine_tuning"} <= set(results["subjects"][name])
    assert "fine_tuning" not in results["subjects"]["raw pixels"]
    against = results["against"]["starting encoder"]
    assert {"linear_probe", "knn", "labels_1_percent", "labels_10_percent", "fine_tuning"} == set(against)
    assert len(load_scores(runs[0])["starting encoder|fine_tuning"]) == len(load_scores(runs[0])["encoder|knn"])
    scores = [torch.from_numpy(load_scores(runs[0])[f"{who}|knn"]) for who in ("encoder", "starting encoder")]
    assert against["knn"]["low"] == pytest.approx(paired_bootstrap(*scores).low)
    assert "since the weights it started from, the linear probe has moved by" in results["verdict"]


def test_a_run_that_started_from_random_weights_has_no_such_control(runs):
    subjects = [subject.name for subject in subjects_of(Session(RunFolder(runs[2]), EvaluationOptions()))]
    assert subjects == ["encoder", "raw pixels", "random encoder"]


def test_the_table_has_a_control_twice_where_runs_differ_in_it(runs, lines):
    rows = [line.split("  ")[0] for line in comparison_table(runs[:2]).splitlines()]
    assert rows[2:5] == ["one", "two", "raw pixels"]
    assert {"starting encoder of one", "starting encoder of two"} <= set(rows), "one was fine-tuned, the other was not"
    assert rows.count("raw pixels") == 1


@pytest.mark.parametrize("from_weights", [True, False])
def test_training_leaves_the_weights_that_it_started_from(tmp_path, runs, from_weights):
    small = {"data": "digits", "image_size": 16, "channels": 1, "width": 0.25, "max_steps": 1, "epochs": 1}
    small |= {
        "batch_size": 64,
        "probe_images": 0,
        "spectrum_images": 16,
        "projector_hidden": 16,
        "out": str(tmp_path / "run"),
    }
    init = {"init": str(runs[0])} if from_weights else {}
    run = RunFolder(train(Settings.of(**small, projector_outputs=16, **init), quiet=True))
    assert (run.start_hash is not None) == from_weights
    if from_weights:
        stored, original = run.starting_encoder().encoder, RunFolder(runs[0]).encoder().encoder
        for name, value in original.state_dict().items():
            assert torch.equal(stored.state_dict()[name], value)
        trained = run.encoder().encoder.state_dict()
        assert not all(torch.equal(trained[name], value) for name, value in original.state_dict().items())
