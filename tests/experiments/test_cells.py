"""Cells of a table: trained once, resumed or skipped, scored on images that training never saw."""

import json

import pytest
import torch

from experiments.common import experiment as running
from experiments.common import tables
from experiments.common.cells import Cell, splits
from experiments.common.experiment import Experiment
from experiments.common.job import Job
from kvicreg.losses import three_terms
from kvicreg.runs import RunFolder, Settings
from kvicreg.training.alarm import NotFinite

TINY = Settings.of(
    data="digits", image_size=16, images=300, holdout=200, epochs=1, batch_size=64, width=0.25, pool=1,
    projector_layers=2, projector_hidden=32, projector_outputs=32, probe_images=0, spectrum_images=32,
)  # fmt: skip


class Plain(Experiment):
    """What all experiments have alike, without controls."""

    with_controls = False


class Controls(Experiment):
    """A run and its controls."""


def quiet(_):
    pass


def one(labels=None, *, on="validation", probe_images=200, **changes):
    return Cell(TINY.replace(**changes), labels or {}, on, probe_images)


def rows_of(cells, folder, *, part="1/1", say=quiet, out="out", experiment=Plain, only=()):
    job = Job(runs=folder / "runs", out=folder / out, part=part, only=only, say=say)
    return experiment().rows(job, cells)


def spy(monkeypatch, train=None):
    """The settings of every training from now on."""
    ran, real = [], running.train
    monkeypatch.setattr(running, "train", lambda s, **more: ran.append((s, more)) or (train or real)(s, **more))
    return ran


def test_a_finished_cell_is_skipped_and_a_changed_one_is_run_again(tmp_path, monkeypatch):
    (row,) = rows_of([one({"kernel name": "RBF"})], tmp_path)
    assert row["kernel name"] == "RBF"
    assert row["scored_on"] == 200
    assert 0 <= row["probe_low"] <= row["probe"] <= row["probe_high"] <= 1

    ran = spy(monkeypatch)
    assert rows_of([one({"kernel name": "RBF"})], tmp_path) == [row]
    rows_of([one(on="test")], tmp_path)  # another measurement of the same run
    assert ran == []
    rows_of([one(seed=1)], tmp_path)
    assert [settings.engine.seed for settings, _ in ran] == [1]


def test_parts_share_the_cells_and_the_table_has_what_is_finished(tmp_path):
    table = [one(seed=seed) for seed in (0, 1)]
    assert [row["seed"] for row in rows_of(table, tmp_path, part="1/2")] == [0]
    assert [row["seed"] for row in rows_of(table, tmp_path, part="2/2")] == [0, 1]


def test_parts_are_counted_from_one():
    assert Job(part="2/3").share == (1, 3)
    for wrong in ("0/2", "3/2", "1", "a/b"):
        with pytest.raises(ValueError, match="part: expected K/N"):
            Job(part=wrong).share  # noqa: B018


def test_only_the_cells_that_have_all_words_are_run_and_the_table_keeps_the_others(tmp_path):
    table = [one({"factor": "weights", "value": n}, seed=n) for n in (0, 1)]
    table.append(one({"factor": "eps", "value": 0}, seed=2))
    assert [row["value"] for row in rows_of(table, tmp_path, only=("weights", "1", "digits"))] == [1]
    assert [row["seed"] for row in rows_of(table, tmp_path, only=("eps",))] == [1, 2]


def test_a_cell_cut_short_is_resumed(tmp_path, monkeypatch):
    (whole,) = rows_of([one(epochs=2)], tmp_path / "whole")

    class Cut(RuntimeError):
        pass

    real = running.train

    def stop_after_one_epoch(settings, **more):
        import lightning.pytorch as pl

        class Stop(pl.Callback):
            def on_train_epoch_start(self, trainer, module):
                if trainer.current_epoch == 1:
                    raise Cut

        return real(settings, callbacks=[Stop()], **more)

    with monkeypatch.context() as patch:
        patch.setattr(running, "train", stop_after_one_epoch)
        with pytest.raises(Cut):
            rows_of([one(epochs=2)], tmp_path / "cut")
    ran = spy(monkeypatch)
    (row,) = rows_of([one(epochs=2)], tmp_path / "cut")
    assert [more["resume"] for _, more in ran] == [True]
    assert row["probe"] == whole["probe"]


def test_controls_are_measured_once_and_a_table_is_enough(tmp_path, monkeypatch):
    rows = rows_of([one(probe_images=100)], tmp_path, experiment=Controls)
    assert [row["method"] for row in rows] == ["raw pixels", "random encoder", "kernel-vicreg"]
    tables.write(tmp_path / "out", "table", rows, "")
    monkeypatch.setattr(running, "accuracies", lambda *_: pytest.fail("measured again"))
    assert rows_of([one(probe_images=100)], tmp_path, out="nowhere", experiment=Controls) == rows
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").rename(tmp_path / "elsewhere" / "out")
    assert rows_of([one(probe_images=100)], tmp_path / "elsewhere", experiment=Controls) == rows


def test_probes_are_fitted_on_images_other_than_those_scored():
    fit, score = splits(one(probe_images=500))
    fitted, scored = (
        {image.numpy().tobytes() for image in part.fetch(torch.arange(len(part)))} for part in (fit, score)
    )
    assert (len(fitted), len(scored)) == (500, 200)
    assert not fitted & scored


def test_a_run_that_is_asked_for_twice_is_run_once(tmp_path):
    lines = []
    rows = rows_of([one({"grid": grid}, probe_images=100) for grid in ("a", "b")], tmp_path, say=lines.append)
    assert [row["grid"] for row in rows] == ["a", "b"]
    assert len(lines) == 1


def test_a_new_default_of_the_loss_is_another_setting(tmp_path, monkeypatch):
    (row,) = rows_of([one()], tmp_path)
    monkeypatch.setitem(three_terms.DEFAULT_WEIGHTS, "shared", (3.0, 1.0, 0.0))
    ran = spy(monkeypatch)
    (again,) = rows_of([one()], tmp_path)
    assert len(ran) == 1
    assert (row["config"]["invariance_weight"], again["config"]["invariance_weight"]) == (2.0, 3.0)
    assert RunFolder(tmp_path / "runs" / one().name).settings.flat()["invariance_weight"] == 3.0


def test_a_setting_that_came_later_does_not_undo_a_cell_that_leaves_it_alone(tmp_path, monkeypatch):
    (row,) = rows_of([one()], tmp_path)
    old = {**row, "config": {key: value for key, value in row["config"].items() if key != "clip"}}
    (tmp_path / "runs" / one().result).write_text(json.dumps(old))
    ran = spy(monkeypatch)
    assert rows_of([one()], tmp_path) == [old]
    assert ran == []
    rows_of([one(clip=1.0)], tmp_path)
    assert len(ran) == 1


def test_a_cell_that_another_process_works_on_is_left_to_it(tmp_path, monkeypatch):
    real = running.train

    def busy(settings, **more):
        if settings.engine.seed == 0:
            raise BlockingIOError("in use by kvicreg train, process 1")
        return real(settings, **more)

    monkeypatch.setattr(running, "train", busy)
    lines = []
    rows = rows_of([one(seed=seed) for seed in (0, 1)], tmp_path, say=lines.append)
    assert [row["seed"] for row in rows] == [1]
    assert "is left to another process: in use by" in lines[0]


def test_training_that_is_not_finite_is_a_result(tmp_path, monkeypatch):
    def diverge(settings, **_):
        raise NotFinite("the loss is not finite")

    monkeypatch.setattr(running, "train", diverge)
    (row,) = rows_of([one()], tmp_path)
    assert row["failed"] == "the loss is not finite"
    assert "probe" not in row


def test_validation_without_a_holdout_is_refused():
    with pytest.raises(ValueError, match="holdout: validation needs images set aside"):
        splits(one(holdout=0))


def test_a_table_is_continued_from_its_file_alone(tmp_path, monkeypatch):
    table = [one({"label": seed}, seed=seed, precision="auto", probe_images=100) for seed in (0, 1)]
    rows = rows_of(table[:1], tmp_path / "there")
    rows[0]["config"]["precision"] = "bf16-mixed"  # that machine's own
    tables.write(tmp_path / "here" / "out", "table", rows, "")
    (tmp_path / "here" / "out" / "of-others.json").write_text("[1, 2]")

    ran = spy(monkeypatch)
    again = rows_of(table, tmp_path / "here")
    assert [settings.engine.seed for settings, _ in ran] == [1]
    assert [row["label"] for row in again] == [0, 1]
    assert again[0] == rows[0]
    assert rows_of(table, tmp_path / "here") == again


class Measured(Plain):
    columns = ("more",)

    def measure(self, job, cell, encoder):
        return super().measure(job, cell, encoder) | {"more": 1}


def test_a_row_without_what_an_experiment_measures_does_not_do(tmp_path, monkeypatch):
    tables.write(tmp_path / "out", "table", rows_of([one({"label": 0})], tmp_path), "")
    ran = spy(monkeypatch)
    (row,) = rows_of([one({"name": "a"})], tmp_path, experiment=Measured)
    assert ran == []  # the run is here, and is only measured
    assert row["more"] == 1
    assert "label" not in row
    assert "more" not in rows_of([one({"name": "a"})], tmp_path)[0]


def test_rows_of_other_settings_are_not_taken_up(tmp_path, monkeypatch):
    tables.write(tmp_path / "here" / "out", "table", rows_of([one()], tmp_path / "there"), "")
    ran = spy(monkeypatch, lambda *_, **__: (_ for _ in ()).throw(NotFinite("trained")))
    others = [one(threshold=1.0), one(precision="64-true"), one(probe_images=50), one(on="test")]
    assert ["failed" in row for row in rows_of(others, tmp_path / "here")] == [True] * 4
    assert len(ran) == 4
    assert "failed" not in rows_of([one()], tmp_path / "here")[0]
