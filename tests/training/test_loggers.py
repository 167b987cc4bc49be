"""Lightning's loggers are chosen by name; MLflow is written to a local store and read back by MLflow itself."""

from __future__ import annotations

import csv

import pytest

from kvicreg.runs import RunFolder
from kvicreg.training import train
from kvicreg.training.loggers import build_logger


def test_csv_takes_the_place_of_tensorboard(tiny_config, tiny_data):
    folder = train(tiny_config.replace(logger="csv", epochs=1), data=tiny_data, quiet=True)
    assert not (folder / "tensorboard").exists()
    rows = list(csv.DictReader((folder / "csv" / "metrics.csv").open()))
    assert {"step/loss", "epoch/effective_rank"} <= set(rows[0])


def test_another_name_is_refused(tiny_config):
    with pytest.raises(ValueError, match="logger"):
        tiny_config.replace(logger="neptune")


@pytest.mark.parametrize(("logger", "package"), [("mlflow", "mlflow-skinny"), ("wandb", "wandb")])
def test_a_missing_tracker_is_named_before_anything_is_written(tiny_config, tiny_data, monkeypatch, logger, package):
    monkeypatch.setattr("kvicreg.training.loggers.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=rf"needs the package {package}: pip install 'kvicreg\[track\]'"):
        train(tiny_config.replace(logger=logger), data=tiny_data, quiet=True)
    assert not tiny_config.folder.exists()


@pytest.mark.parametrize(("variable", "project"), [(None, "kvicreg"), ("mine", "mine")])
def test_the_project_of_weights_and_biases_is_its_own_variable(tmp_path, monkeypatch, variable, project):
    monkeypatch.setattr("kvicreg.training.loggers.find_spec", lambda name: True)
    monkeypatch.setattr("kvicreg.training.loggers.loggers.WandbLogger", lambda **given: given)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    if variable is not None:
        monkeypatch.setenv("WANDB_PROJECT", variable)
    run = RunFolder(tmp_path / "first")
    assert build_logger("wandb", run) == {"project": project, "name": "first", "save_dir": run.path}


def test_mlflow_has_every_number_of_the_run(tiny_config, tiny_data, monkeypatch, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="needs mlflow-skinny: make track installs it and runs this")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/store.db")
    folder = train(tiny_config.replace(logger="mlflow"), data=tiny_data, quiet=True)
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/store.db")
    experiment = client.get_experiment_by_name("kvicreg")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == (folder.name, "FINISHED")
    rows = list(csv.DictReader((folder / "metrics.csv").open()))
    for column in ("loss", "effective_rank", "probe_accuracy"):
        points = client.get_metric_history(run.info.run_id, f"epoch/{column}")
        assert [point.step for point in points] == [int(row["step"]) for row in rows]
        assert [point.value for point in points] == pytest.approx([float(row[column]) for row in rows], rel=1e-5)
